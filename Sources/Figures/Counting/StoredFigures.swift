internal import JSON
internal import Ledger

/// The counts of a purchase as they are stored: a list of days, each with its product, its currency, and pairs of a
/// figure and a number. Equal counts have equal texts.
enum StoredFigures {
  static func counts(_ text: String) throws -> [FigureKey: FigureCounts] {
    let rows = try JSONReader.readAtOnce(Array(text.utf8), root: .any, size: .whole) { list in
      list.elements.map { $0.elements.map(\.kind) }
    }
    var counts: [FigureKey: FigureCounts] = [:]
    for row in rows {
      guard row.count >= 3, row.count % 2 == 1, case .integer(let day) = row[0], case .string(let product) = row[1],
        case .string(let currency) = row[2]
      else { throw StoredForm.Unstorable() }
      let key = FigureKey(day: Int(day), product: product, currency: currency)
      for place in stride(from: 3, to: row.count, by: 2) {
        guard case .integer(let number) = row[place], let figure = Figure(rawValue: Int(number)),
          case .integer(let count) = row[place + 1]
        else { throw StoredForm.Unstorable() }
        counts[key, default: FigureCounts()][figure] = count
      }
    }
    return counts
  }

  static func text(_ counts: [FigureKey: FigureCounts]) -> String {
    var writer = JSONWriter()
    writer.array { writer in
      for key in counts.keys.sorted() {
        guard let counts = counts[key] else { continue }
        writer.array { writer in
          writer.value(Int64(key.day))
          writer.value(key.product)
          writer.value(key.currency)
          for figure in Figure.allCases where counts[figure] != 0 {
            writer.value(Int64(figure.rawValue))
            writer.value(counts[figure])
          }
        }
      }
    }
    return String(decoding: writer.bytes, as: UTF8.self)
  }
}
