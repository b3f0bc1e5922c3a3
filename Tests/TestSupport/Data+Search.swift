package import Foundation

extension Data {
  /// Whether these bytes, of which there is at least one, stand somewhere. `firstRange(of:)` takes a hundred times as long in a
  /// debug build, and ledgers are searched for some fifty forms of a name.
  package func holds(_ bytes: some ContiguousBytes) -> Bool {
    withUnsafeBytes { all in
      bytes.withUnsafeBytes { part in
        guard let start = all.baseAddress, let sought = part.baseAddress, let first = part.first else { return false }
        var place = 0
        while place + part.count <= all.count,
          let found = memchr(start + place, CInt(first), all.count - part.count - place + 1)
        {
          if memcmp(found, sought, part.count) == 0 { return true }
          place = UnsafeRawPointer(found) - start + 1
        }
        return false
      }
    }
  }
}
