"""The page of signed links: path("signals/", include("pgqueue.durable.urls"))."""

from django.urls import path

from pgqueue.durable.links import URL_NAME, link_view

urlpatterns = [path("<str:token>/", link_view(), name=URL_NAME)]
