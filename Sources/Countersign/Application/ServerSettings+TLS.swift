import CountersignServer

extension ServerSettings {
  /// The certificate that the server shows; `nil` for plain HTTP.
  func identities() throws(StartError) -> ServerIdentities? {
    guard let tls else { return nil }
    do throws(ServerIdentity.Unusable) {
      return try ServerIdentities(tls)
    } catch {
      throw StartError(
        description: "server.tls.\(error.isAboutKey ? "key_file" : "certificate_file"): \(error.sentence).")
    }
  }
}
