"""Server-sent events: views that stream the event log, or one message, to browsers."""

from pgqueue.options.filters import Filter
from pgqueue.sse.message_view import StreamedMessage, message_stream
from pgqueue.sse.views import event_stream

__all__ = ["Filter", "StreamedMessage", "event_stream", "message_stream"]
