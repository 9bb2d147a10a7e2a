from demoapp import views
from django.urls import path

urlpatterns = [
    path("start/<str:name>/", views.start),
    path("result/<str:ids>/", views.result),
    path("widgets/", views.widgets),
]
