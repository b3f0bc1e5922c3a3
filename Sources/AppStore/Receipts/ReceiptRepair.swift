/// Damage of the transport that was undone. The raw values are part of the output of `inspect --json`.
package enum ReceiptRepair: String, Hashable, Sendable, CaseIterable {
  /// Line breaks or blanks within the text.
  case whitespace = "whitespace_removed"
  /// Form decoding had turned every `+` into a space.
  case plus = "plus_restored"
  case base64URL = "base64url_alphabet"
  case padding = "padding_corrected"
}
