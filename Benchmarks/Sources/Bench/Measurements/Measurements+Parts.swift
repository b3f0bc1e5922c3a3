extension Measurements {
  func bounds() throws {
    table.section("Bounds: what the parts cost by themselves, on one core")
    let routes = try routeCosts()
    table.add(
      Row(
        name: "bare Hummingbird route, GET", value: "\(routes.get.cpu.text()) µs CPU",
        ratio: "\(routes.get.rate.text())/s"))
    table.add(
      Row(
        name: "bare Hummingbird route, POST of a receipt", value: "\(routes.post.cpu.text()) µs CPU",
        ratio: "\(routes.post.rate.text())/s"))
    let two = try transportCost(periods: 6, receiptBytes: 5_760, count: 10_000)
    let one = try transportCost(periods: 6, receiptBytes: 5_760, count: 10_000, http2: false)
    table.add(
      Row(
        name: "bare transport, 32 in flight, HTTP/2", value: "\(two.cpu.text()) µs CPU", ratio: "\(two.rate.text())/s"))
    table.add(
      Row(
        name: "bare transport, 32 in flight, HTTP/1.1", value: "\(one.cpu.text()) µs CPU", ratio: "\(one.rate.text())/s"
      ))
  }

  func parts() throws {
    table.section("The parts of a validation that are neither network nor disk: CPU, one at a time")
    let numbers = try Child.output(of: bed.bench, ["parts", "--rounds", "\(rounds)"], core: Bed.serviceCore).numbers
    func text(_ microseconds: Double) -> String {
      microseconds < 10_000
        ? "\(microseconds.text(microseconds < 100 ? 1 : 0)) µs" : "\((microseconds / 1000).text(1)) ms"
    }
    func number(_ name: String) -> Double { numbers[name] ?? 0 }
    for (name, _, _) in PartsCommand.answers {
      let bytes = number("\(name)_bytes")
      let whole = number("\(name)_whole_us")
      let size = bytes < 1e6 ? "\((bytes / 1024).text()) KiB" : "\((bytes / 1e6).text(1)) MB"
      table.add(Row(name: "answer of \(size), jansson reads all of it", value: text(whole)))
      for (part, title) in [("pass", "indexed in one pass"), ("history", "all, to a history")] {
        let cost = number("\(name)_\(part)_us")
        table.add(
          Row(
            name: "answer of \(size), \(title)", value: text(cost),
            ratio: "\((cost / Swift.max(0.1, whole) * 100).text()) % of jansson reading all"))
      }
    }
    for (part, title) in [("judge", "the rules"), ("encode", "encoded for the ledger")] {
      for rows in PartsCommand.subscribers {
        let cost = number("\(part)_\(rows)_us")
        table.add(
          Row(
            name: "subscriber of \(rows) \(rows == 1 ? "row" : "rows"), \(title)", value: text(cost),
            ratio: "\((cost / Double(rows)).text(2)) µs a row"))
      }
    }
  }
}
