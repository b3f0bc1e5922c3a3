import HTTPTypes
import Hummingbird
import NIOCore

/// `GET /openapi.yaml`: the contract of this version, `Routes/openapi.yaml` in the source.
struct OpenAPIController: Controller {
  func addRoutes(to routes: Routes) { routes.serve("/openapi.yaml", [.get: document]) }

  func document(_ request: Request, _ context: ServiceRequestContext) -> Response {
    Response(
      status: .ok,
      // RFC 9512.
      headers: [.contentType: "application/yaml", .cacheControl: "no-cache"],
      body: .bytes(ByteBuffer(bytes: Resource.openAPI)))
  }
}
