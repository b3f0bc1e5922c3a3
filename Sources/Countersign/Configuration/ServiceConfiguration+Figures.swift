import CountersignServer
import Figures
import Files

extension ServiceConfiguration {
  struct Figures: Sendable {
    struct Rates: Sendable {
      let path: String
      /// As they were at the start.
      let rates: ExchangeRates
    }

    /// The currency into which amounts are converted.
    let currency: String
    /// `nil`: amounts stay in their currencies.
    let rates: Rates?

    init(_ reader: inout ConfigurationReader) {
      let key = "figures.rates_file"
      let path = reader.read(
        key, .ratesFile,
        "CSV with exchange rates by day, as the European Central Bank publishes them, for figures in one currency; read "
          + "again when it is replaced. Without it figures are by currency alone")
      currency = reader.read(
        "figures.currency", .currency, default: "USD", "Currency of the figures that are converted")
      guard let path else {
        rates = nil
        return
      }
      var read: ExchangeRates?
      do throws(ExchangeRates.Unusable) { read = try ExchangeRates(file: path, into: currency) } catch {
        reader.problem(key, "the file \(Quotation.of(path, length: 4_096)) \(error.reason)")
      }
      rates = read.map { Rates(path: path, rates: $0) }
    }
  }
}

extension ExchangeRates {
  init(file path: String, into currency: String) throws(Unusable) {
    let bytes: [UInt8]
    do throws(BoundedFile.Unusable) { bytes = try BoundedFile(path: path, limit: Self.sizeLimit).bytes } catch {
      throw Unusable(reason: error.reason)
    }
    try self.init(csv: bytes, into: currency)
  }
}

extension ValueForm<String> {
  /// A file that the section reads itself.
  fileprivate static var ratesFile: Self { Self(name: "file") { $0 } }

  /// A currency as ISO 4217 names it.
  fileprivate static var currency: Self {
    Self(name: "currency") { text in
      text.utf8.count == 3 && text.utf8.allSatisfy { (0x41...0x5a).contains($0) } ? text : nil
    } or: {
      "must be three capitals such as USD, not \(Quotation.of($0))"
    }
  }
}
