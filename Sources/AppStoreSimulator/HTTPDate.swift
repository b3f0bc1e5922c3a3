import FoundationEssentials

extension Date {
  /// The form of the `Date` header (RFC 9110, section 5.6.7): `Thu, 15 Jan 2026 12:00:00 GMT`.
  var imfFixdate: String {
    let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    // 1 January 1970 was a Thursday.
    let day = Int((timeIntervalSince1970 / 86_400).rounded(.down))
    let parts = formatted(Date.ISO8601FormatStyle(timeZone: .gmt)).split { "-T:Z".contains($0) }
    guard parts.count == 6, let month = Int(parts[1]), months.indices.contains(month - 1) else { return "" }
    let weekday = weekdays[((day % 7) + 7) % 7]
    return "\(weekday), \(parts[2]) \(months[month - 1]) \(parts[0]) \(parts[3]):\(parts[4]):\(parts[5]) GMT"
  }
}
