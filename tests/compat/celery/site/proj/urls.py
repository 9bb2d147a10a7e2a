from demoapp import views
from django.urls import path

urlpatterns = [
    path("start/<str:name>/", views.start),
    path("result/<str:id>/", views.result),
    path("widgets/", views.widgets),
]
