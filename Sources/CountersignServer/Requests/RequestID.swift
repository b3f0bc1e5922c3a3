/// The name of a request, in its answer, in the log and in the history.
package enum RequestID {
  /// 128 random bits, in hex.
  package static func random() -> String {
    var generator = SystemRandomNumberGenerator()
    return (0..<2).map { _ in
      let digits = String(generator.next() as UInt64, radix: 16)
      return String(repeating: "0", count: 16 - digits.count) + digits
    }.joined()
  }
}
