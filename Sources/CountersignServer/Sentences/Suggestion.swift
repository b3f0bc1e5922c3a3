/// The known word that a misspelt one was probably meant to be.
package enum Suggestion {
  /// Longer words are compared by their beginnings.
  private static let longest = 64

  /// `; did you mean server.port?`, or nothing.
  package static func clause(for word: String, among known: [String]) -> String {
    nearest(to: word, among: known).map { "; did you mean \($0)?" } ?? ""
  }

  /// The nearest word at most a third of the letters away (two for short words), the first of equals.
  package static func nearest(to word: String, among known: [String]) -> String? {
    let word = Array(word.unicodeScalars.prefix(longest))
    let reach = max(2, word.count / 3)
    var best: (word: String, distance: Int)?
    for candidate in known {
      let distance = distance(word, Array(candidate.unicodeScalars.prefix(longest)))
      if distance <= reach, distance < candidate.count, distance < best?.distance ?? .max {
        best = (candidate, distance)
      }
    }
    return best?.word
  }

  /// Levenshtein's edit distance: insertions, deletions and replacements that turn one into the other.
  private static func distance(_ a: [Unicode.Scalar], _ b: [Unicode.Scalar]) -> Int {
    var previous = Array(0...b.count)
    for (row, left) in a.enumerated() {
      var current = [row + 1]
      for (column, right) in b.enumerated() {
        let replaced = previous[column] + (left == right ? 0 : 1)
        current.append(min(replaced, previous[column + 1] + 1, current[column] + 1))
      }
      previous = current
    }
    return previous.last ?? 0
  }
}
