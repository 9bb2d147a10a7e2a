"""Pages that are live: orders as they are placed, and how far the packing of one is."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from pgqueue import publish
from pgqueue.sse import Filter, StreamedMessage, event_stream, message_stream
from testproject.shop.agent import decide_about_refund
from testproject.shop.events import OrderPlaced
from testproject.shop.models import Order, Product
from testproject.shop.tasks import pack

LATEST = 20
WARES = {"apples": "0.40", "bread": "3.20", "tea": "5.90"}


def orders(request: HttpRequest) -> HttpResponse:
    """Show the latest orders, and those that come while the page is open; or place one."""
    if request.method == "POST":
        return _place(request)
    if not Product.objects.filter(sku__in=WARES).exists():
        Product.objects.bulk_create(
            Product(sku=sku, name=sku.title(), price=price, stock=1000)
            for sku, price in WARES.items()
        )
    return render(
        request,
        "shop/orders.html",
        {
            "products": Product.objects.filter(sku__in=WARES).order_by("name"),
            "orders": Order.objects.select_related("product").order_by("-pk")[:LATEST],
        },
    )


def _place(request: HttpRequest) -> HttpResponse:
    product = get_object_or_404(Product, sku=request.POST.get("sku"))
    with transaction.atomic():
        order = Order.objects.create(
            name="Ada", email="ada@example.com", product=product, quantity=3
        )
        publish(OrderPlaced(order_id=order.pk, email=order.email, total=order.total))
        packing = pack.enqueue(order.pk)
    return redirect("packing", id=packing.id)


def packing(request: HttpRequest, id: int) -> HttpResponse:
    """Show how far the packing of an order is."""
    return render(request, "shop/packing.html", {"id": id})


@require_POST
def complain(request: HttpRequest) -> HttpResponse:
    """Take a complaint about an order, which an agent handles."""
    order = get_object_or_404(Order, pk=request.POST.get("order"))
    agent = decide_about_refund.enqueue(f"Order {order.pk} came broken.")
    return redirect("refund", id=agent.id)


def refund(request: HttpRequest, id: int) -> HttpResponse:
    """Show the agent's words and progress, and the link by which a person agrees."""
    return render(request, "shop/refund.html", {"id": id})


def may_see(request: HttpRequest, wanted: Filter) -> bool:
    """Let everybody see the shop's orders: there is nobody to log in as."""
    return True


def may_see_message(request: HttpRequest, message: StreamedMessage) -> bool:
    """Let everybody see how far orders are, and nothing else."""
    return message.task == pack.name


order_stream = event_stream(
    authorize=may_see, topics=OrderPlaced.topic, where={"order_id__exists": True}
)
packing_stream = message_stream(authorize=may_see_message)
refund_stream = message_stream(
    authorize=lambda request, message: message.task == decide_about_refund.name
)
