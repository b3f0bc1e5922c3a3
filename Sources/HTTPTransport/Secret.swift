/// Text that must not reach a log, an error, a metric or a page: every way of printing it gives `***`.
package struct Secret: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// The text itself. Use it only where it is sent.
  package let exposed: String

  package init(_ text: String) { exposed = text }

  package var description: String { "***" }
  package var debugDescription: String { "***" }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
