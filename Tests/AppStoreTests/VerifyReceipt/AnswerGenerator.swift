import SeededRandom

/// Makes up answers of `verifyReceipt`, most of them in Apple's shapes, and some that no JSON parser takes.
struct AnswerGenerator {
  /// A JSON text, as far as it is one: keys and values are put down as they are.
  private indirect enum Node {
    case object([(key: String, value: Node)])
    case array([Node])
    case raw(String)
  }

  private var dice: SeededRandom

  init(seed: UInt64) { dice = SeededRandom(seed: seed) }

  mutating func answer() -> [UInt8] {
    var node = body()
    for _ in 0..<pick([0, 0, 0, 0, 1, 2]) { node = damaged(node) }
    let gaps = pick([["", "", ""], [" ", "", " "], ["\n ", " ", " "], ["\r\n\t", "", ""]])
    var bytes = Array(spell(node, gaps: gaps).utf8)
    if chance(10) {
      let odd: [[UInt8]] = [
        [0xFF], [0xC0, 0xAF], [0xED, 0xA0, 0x80], [0xC3], [0xC3, 0xA9], [0xF0, 0x9F, 0x98, 0x80],
        [0xF4, 0x90, 0x80, 0x80], [0], [0x1F], [0x7F],
      ]
      bytes.insert(contentsOf: pick(odd), at: Int.random(in: 0...bytes.count, using: &dice))
    }
    return chance(20) ? TextDamage.mutate(bytes, &dice) : bytes
  }

  private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &dice) < percent }

  private mutating func pick<Value>(_ values: [Value]) -> Value {
    values[Int.random(in: 0..<values.count, using: &dice)]
  }

  // MARK: Apple's shapes

  private mutating func body() -> Node {
    var members: [(key: String, value: Node)] = [
      ("status", .raw(pick(["0", "0", "0", "0", "0", "\"0\"", "21006", "21007", "21104", "21010", "0.0", "null"])))
    ]
    if chance(80) {
      members.append(("environment", .raw(pick([#""Production""#, #""Sandbox""#, #""\u0053andbox""#, "null", "1"]))))
    }
    if chance(90) { members.append(("receipt", chance(75) ? appReceipt() : row())) }
    for key in ["latest_receipt_info", "latest_expired_receipt_info"] where chance(key.count < 20 ? 70 : 15) {
      members.append((key, rows()))
    }
    if chance(60) {
      var renewals: [Node] = []
      for _ in 0..<pick([0, 1, 1, 2]) { renewals.append(.object(renewal())) }
      members.append(("pending_renewal_info", .array(renewals)))
    }
    if chance(15) { members += renewal() }
    if chance(60) { members.append(("latest_receipt", .raw(#""MIIT\/qwYJKoZIhvcNAQcCoIITnDCC/E5gCAQEx+w==""#))) }
    if chance(10) { members.append(("exception", .raw(pick(["null", #""com.apple.E""#, "{}", #"{"a":1}"#])))) }
    if chance(15) { members.append(("is-retryable", flag())) }
    return .object(withExtras(members))
  }

  private mutating func appReceipt() -> Node {
    var members: [(key: String, value: Node)] = [
      ("receipt_type", .raw(pick([#""Production""#, #""ProductionSandbox""#]))),
      ("adam_id", .raw("1234567890")), ("download_id", .raw("500000000000001234")),
      ("in_app", rows()),
    ]
    if chance(90) { members.append(("bundle_id", .raw(#""com.example.app""#))) }
    for name in ["request_date", "receipt_creation_date", "original_purchase_date"] where chance(80) {
      members += date(name)
    }
    if chance(5) { members += date("expiration_date") }
    return .object(withExtras(members))
  }

  private mutating func rows() -> Node {
    if chance(8) { return .raw(pick(["{}", "[]", #"{"quantity":"1"}"#, "null", "[null]", #"[{"x":[]},1]"#, "0"])) }
    if chance(8) { return row() }
    var rows: [Node] = []
    for _ in 0..<pick([0, 1, 2, 3]) { rows.append(row()) }
    return .array(rows)
  }

  private mutating func row() -> Node {
    var members: [(key: String, value: Node)] = [("quantity", .raw(#""1""#))]
    if chance(98) { members.append(("product_id", .raw(pick([#""com.example.app.pro""#, #""pro\u002eéé""#])))) }
    if chance(95) { members.append(("transaction_id", .raw(pick([#""480002000000112""#, "480002000000112"])))) }
    if chance(90) { members.append(("original_transaction_id", .raw(#""480002000000001""#))) }
    for name in ["purchase_date", "original_purchase_date", "expires_date"] { members += date(name) }
    if chance(15) {
      members += date("cancellation_date")
      if chance(80) { members.append(("cancellation_reason", .raw(pick([#""1""#, "0", #""""#])))) }
    }
    for name in ["is_trial_period", "is_in_intro_offer_period", "is_upgraded"] where chance(70) {
      members.append((name, flag()))
    }
    let texts = [
      "in_app_ownership_type", "web_order_line_item_id", "subscription_group_identifier", "promotional_offer_id",
      "offer_code_ref_name", "app_account_token", "bid",
    ]
    for name in texts where chance(50) {
      members.append((name, .raw(pick([#""FAMILY_SHARED""#, #""21000001""#, #""été \"x\"""#, #""""#, "7", "null"]))))
    }
    return .object(withExtras(members))
  }

  private mutating func renewal() -> [(key: String, value: Node)] {
    var members: [(key: String, value: Node)] = [("auto_renew_status", flag())]
    let names = [
      "auto_renew_product_id", "product_id", "original_transaction_id", "expiration_intent",
      "is_in_billing_retry_period", "price_consent_status", "price_increase_status",
    ]
    for name in names where chance(50) { members.append((name, .raw(pick([#""1""#, "0", #""2""#])))) }
    if chance(40) { members += date("grace_period_expires_date") }
    return members
  }

  private mutating func flag() -> Node {
    let spellings = [
      #""false""#, #""false""#, #""true""#, #""1""#, #""0""#, "true", "false", "1", #""falsE""#, #""f\u0061lse""#,
    ]
    return .raw(pick(spellings))
  }

  /// One moment under some of its names, as a rule in Apple's order.
  private mutating func date(_ name: String) -> [(key: String, value: Node)] {
    let milliseconds = [#""1717200000000""#, #""1719792000000""#, "1717977600000", "1717200000000.5"]
    let text = #""2024-06-01 00:00:00 Etc/GMT""#
    let odd = ["null", #""""#, "true", "{}", "[]", #"{"a":1}"#, #""soon""#, "1e3", "0", #""\u0030""#]
    var members: [(key: String, value: Node)] = []
    if chance(90) { members.append((name, .raw(chance(95) ? text : pick(odd)))) }
    if chance(10) { members.append((name + "_formatted", .raw(text))) }
    if chance(90) { members.append((name + "_ms", .raw(chance(90) ? pick(milliseconds) : pick(odd)))) }
    if chance(90) { members.append((name + "_pst", .raw(chance(95) ? #""2024-05-31 17:00:00 PST""# : pick(odd)))) }
    if chance(10) { members.append((name + "_formatted_pst", .raw(pick(odd)))) }
    if chance(25) { members.shuffle(using: &dice) }
    return members
  }

  // MARK: What Apple does not send

  private mutating func withExtras(_ members: [(key: String, value: Node)]) -> [(key: String, value: Node)] {
    var members = members
    if chance(20) {
      members.insert((pick(["x", "note", "", "ключ", "a b"]), odd(depth: 0)), at: pick([0, members.count]))
    }
    if chance(15) { members.shuffle(using: &dice) }
    return members
  }

  private mutating func odd(depth: Int) -> Node {
    if depth < 3, chance(40) {
      var values: [Node] = []
      for _ in 0..<pick([0, 1, 2, 3]) { values.append(odd(depth: depth + 1)) }
      if chance(50) { return .array(values) }
      return .object(values.enumerated().map { (key: ["a", "b", "status"][$0.offset], value: $0.element) })
    }
    let plain = ["0", "-0", "12.50", "true", "false", "null", #""""#, #""a\n\u00e9""#, #""é😀""#]
    if chance(85) { return .raw(pick(plain)) }
    return .raw(
      pick([
        "-1e-3", "1E5", "1e999", "01", "1.", "-", ".5", "123456789012345678", "9223372036854775807",
        "9223372036854775808", #""\u0000""#, #""\ud800""#, #""\ud83d\ude00""#, #""\udc00""#, #""\x""#, "\"\t\"",
        #""\u00zz""#, "tru", "nulll", "[1,]", "{,}", "{1:2}", #"{"a":1,"a":2}"#, #"{"a":1,"\u0061":2}"#, #"{"a"}"#, "",
        nested(20), nested(61), nested(62), nested(63), nested(70), "[[{}]]", "[,]", "'a'",
      ]))
  }

  private func nested(_ depth: Int) -> String {
    String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
  }

  /// The same with one thing wrong with a member somewhere in it.
  private mutating func damaged(_ node: Node) -> Node {
    switch node {
    case .raw:
      return odd(depth: 2)
    case .array(var elements):
      guard !elements.isEmpty else { return odd(depth: 1) }
      let place = Int.random(in: 0..<elements.count, using: &dice)
      elements[place] = damaged(elements[place])
      return .array(elements)
    case .object(var members):
      guard !members.isEmpty else { return odd(depth: 1) }
      let place = Int.random(in: 0..<members.count, using: &dice)
      let member = members[place]
      switch Int.random(in: 0..<10, using: &dice) {
      case 0: members.insert(member, at: Int.random(in: 0...members.count, using: &dice))
      case 1: members.insert((member.key, odd(depth: 1)), at: Int.random(in: 0...members.count, using: &dice))
      case 2: members.remove(at: place)
      case 3: members[place].key = "\\u0061" + member.key
      case 4: members[place].key = member.key.uppercased()
      case 5: members[place].value = odd(depth: 0)
      case 6: members[place].key = pick(["x\\", "a\"b", "a\tb", "status", "product_id", "é"])
      default: members[place].value = damaged(member.value)
      }
      return .object(members)
    }
  }

  /// - Parameter gaps: white space before an item, before a colon and behind it.
  private func spell(_ node: Node, gaps: [String]) -> String {
    switch node {
    case .raw(let text): return text
    case .array(let elements):
      return "[" + elements.map { gaps[0] + spell($0, gaps: gaps) }.joined(separator: ",") + gaps[0] + "]"
    case .object(let members):
      return "{"
        + members.map { "\(gaps[0])\"\($0.key)\"\(gaps[1]):\(gaps[2])" + spell($0.value, gaps: gaps) }
        .joined(separator: ",") + gaps[0] + "}"
    }
  }
}
