/** The parts of `oidc-provider` that tests use; the package has no types of its own. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  export interface TokenContext {
    readonly req: IncomingMessage
  }

  export interface ProviderOptions {
    readonly jwks: { readonly keys: readonly object[] }
    readonly clients: readonly object[]
    readonly features: Readonly<Record<string, object>>
    readonly formats: {
      readonly customizers: {
        jwt(context: TokenContext, token: object, jwt: { payload: Record<string, unknown> }): void
      }
    }
  }

  export default class Provider {
    constructor(issuer: string, options: ProviderOptions)
    callback(): (request: IncomingMessage, response: ServerResponse) => void
  }
}
