from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("shop/", include("testproject.shop.urls")),
    path("signals/", include("pgqueue.durable.urls")),
]
