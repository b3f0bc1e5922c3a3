/// Text of somebody else in quotes, for a sentence about it: short, on one line, in ASCII.
package enum Quotation {
  package static func of(_ text: String, length: Int = 60) -> String {
    let shown = text.unicodeScalars.prefix(length)
    let isComplete = shown.endIndex == text.unicodeScalars.endIndex
    return "\"" + shown.map { $0.escaped(asASCII: true) }.joined() + (isComplete ? "\"" : "…\"")
  }
}
