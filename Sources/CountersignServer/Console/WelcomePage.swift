import HTTPTypes
import Hummingbird
import NIOCore

/// `GET /` and `GET /problems/{code}`: what this service is, and what each problem means, as text for people.
struct WelcomePage: Controller {
  private static let text = """
    Countersign validates App Store receipts and says which subscription tier a user has.

      POST /v1/validations   validate a receipt
      GET  /v1/profiles/me   read a user's tier
      GET  /openapi.yaml     every operation (OpenAPI 3.1)
      GET  /support          the page for support staff
      GET  /problems/{code}  what an error means
      GET  /livez            whether the process answers

    Callers authenticate with 'Authorization: Bearer', followed by an API key or a user's token.
    'countersign init' makes a key, 'countersign doctor' says what is missing, docs/your-app.md leads through both.

    """

  func addRoutes(to routes: Routes) {
    routes.serve("/", [.get: welcome])
    routes.serve("/problems/{code}", [.get: problem])
  }

  func welcome(_ request: Request, _ context: ServiceRequestContext) -> Response { Self.response(Self.text) }

  /// The section of the reference on one code.
  func problem(_ request: Request, _ context: ServiceRequestContext) throws -> Response {
    guard let code = context.parameters["code"].flatMap(Problem.Code.init), let section = Self.sections[code] else {
      throw Problem(.notFound, "There is no problem of this code.")
    }
    return Self.response(section)
  }

  /// Each code's section of the reference of problems. Links to other pages become their titles.
  static let sections: [Problem.Code: String] = {
    let reference = String(decoding: Resource.problems, as: UTF8.self)
    let pairs = reference.split(separator: "\n## ").dropFirst().compactMap { section -> (Problem.Code, String)? in
      guard let title = section.split(separator: "\n").first, let code = Problem.Code(rawValue: String(title)) else {
        return nil
      }
      let text = section.replacing(/\[([^\]]*)\]\([^)]*\)/) { $0.1 }
      return (code, "\(text.last == "\n" ? text : text + "\n")")
    }
    return Dictionary(pairs) { first, _ in first }
  }()

  private static func response(_ text: String) -> Response {
    Response(
      status: .ok, headers: [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-cache"],
      body: .bytes(ByteBuffer(string: text)))
  }
}
