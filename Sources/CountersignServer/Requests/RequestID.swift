/// The name of a request, in its answer, in the log and in the history.
package enum RequestID {
  /// 128 random bits, in hex.
  package static func random() -> String {
    let number = UInt128.random(in: .min ... .max)
    return String(unsafeUninitializedCapacity: 32) { digits in
      for index in 0..<32 {
        let digit = UInt8(truncatingIfNeeded: number >> (124 - 4 * index)) & 15
        digits.initializeElement(at: index, to: digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
      }
      return 32
    }
  }
}
