from decimal import Decimal

from django.db import models


class Product(models.Model):
    """Something the shop sells."""

    sku = models.CharField(max_length=40, unique=True)
    name = models.CharField(max_length=100)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.IntegerField()

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """What a customer asked for."""

    name = models.CharField(max_length=100)
    email = models.EmailField()
    product = models.ForeignKey(Product, models.CASCADE, related_name="orders")
    quantity = models.PositiveIntegerField()
    placed_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"#{self.pk} of {self.name}"

    @property
    def total(self) -> Decimal:
        """What the customer pays."""
        return self.product.price * self.quantity


class StockMovement(models.Model):
    """What left the stock for an order.

    There must be one for each order, and no constraint says so: that there is exactly one
    is for the queue to keep, and for the demo to count.
    """

    order = models.ForeignKey(Order, models.CASCADE, related_name="movements")
    product = models.ForeignKey(Product, models.CASCADE, related_name="movements")
    change = models.IntegerField()
    moved_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.change:+} of {self.product}"


class Refund(models.Model):
    """Money that was paid back for an order, once its owner had agreed."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="refunds")
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    paid_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.amount} of {self.order}"


class AuditEntry(models.Model):
    """Something that has happened to an order, as the event log has it.

    There must be one for each of its events, in their order, and no constraint says so: as for
    stock movements, that is for the queue to keep.
    """

    order = models.ForeignKey(Order, models.CASCADE, related_name="audit")
    position = models.BigIntegerField()
    what = models.CharField(max_length=200)
    happened_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.what} at {self.position}"
