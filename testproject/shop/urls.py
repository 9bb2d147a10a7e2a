from django.urls import path

from testproject.shop import views

urlpatterns = [
    path("", views.orders, name="orders"),
    path("events/", views.order_stream, name="order-events"),
    path("refunds/", views.complain, name="complain"),
    path("refunds/<int:id>/", views.refund, name="refund"),
    path("refunds/<int:id>/events/", views.refund_stream, name="refund-events"),
    path("packing/<int:id>/", views.packing, name="packing"),
    path("packing/<int:id>/events/", views.packing_stream, name="packing-events"),
]
