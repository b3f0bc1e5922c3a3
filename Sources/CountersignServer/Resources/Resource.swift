internal import CResources

/// The files in the binary.
package enum Resource {
  package static let openAPI = bytes(of: "openapi.yaml") ?? []
  /// The reference of problems, as in the documentation.
  static let problems = bytes(of: "problems.md") ?? []
  package static let page = bytes(of: "page.html") ?? []
  package static let styleSheet = bytes(of: "page.css") ?? []

  /// - Parameter name: a module of the support page's script, such as `page.js`.
  package static func script(_ name: String) -> [UInt8]? { name.hasSuffix(".js") ? bytes(of: name) : nil }

  private static func bytes(of name: String) -> [UInt8]? {
    let resource = resource_named(name)
    return resource.bytes.map { Array(UnsafeBufferPointer(start: $0, count: resource.count)) }
  }
}
