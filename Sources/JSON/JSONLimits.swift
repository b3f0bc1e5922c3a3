/// The limits on JSON to be parsed.
///
/// A parsed tree is far larger than its text: 5 MB of `[{},{},…]` become some 370 MB. A limit on bytes alone therefore
/// protects nothing, so values are counted before the parser allocates the first of them.
///
///     what                    a large real answer   limit
///     bytes                   3 MB                  8 MiB
///     objects and arrays      10 000                100 000     about 25 MB of tree
///     values                  200 000               1 000 000   about 100 MB of tree
///     nesting                 4                     64
package struct JSONLimits: Sendable {
  var bytes = 8 * 1024 * 1024
  var containers = 100_000
  var values = 1_000_000
  var depth = 64

  /// Whether a text is within the limits. One pass, no allocation.
  ///
  /// Text that is not JSON may be miscounted from the first error on; the parser stops at that error.
  func admit(_ text: UnsafeRawBufferPointer) -> Bool {
    guard text.count <= bytes else { return false }
    var containersSeen = 0
    var valuesSeen = 1
    var level = 0
    var insideString = false
    var escaped = false
    for byte in text {
      if insideString {
        if escaped {
          escaped = false
        } else if byte == UInt8(ascii: "\\") {
          escaped = true
        } else if byte == UInt8(ascii: "\"") {
          insideString = false
        }
        continue
      }
      switch byte {
      case UInt8(ascii: "\""): insideString = true
      case UInt8(ascii: "{"), UInt8(ascii: "["):
        containersSeen += 1
        level += 1
        if containersSeen > containers || level > depth { return false }
      case UInt8(ascii: "}"), UInt8(ascii: "]"): level -= 1
      case UInt8(ascii: ","):
        valuesSeen += 1
        if valuesSeen > values { return false }
      default: break
      }
    }
    return true
  }
}
