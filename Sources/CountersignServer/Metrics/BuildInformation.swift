/// The version of this program.
package enum BuildInformation {
  package static let version = "0.1.0"

  #if compiler(>=6.3)
    static let swift = "6.3"
  #else
    static let swift = "6.2"
  #endif
}
