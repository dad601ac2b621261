import { generateKeyPairSync } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import Provider, { type ProviderOptions } from 'oidc-provider'
import type { Owner } from '../service/running.ts'

type SigningAlgorithm = 'RS256' | 'PS256' | 'ES256' | 'EdDSA'

/** What a token is to say. */
export interface WantedToken {
  readonly sub?: string
  readonly audience?: string
  /** Further claims, such as groups. A claim that the provider sets itself is replaced. */
  readonly claims?: Readonly<Record<string, unknown>>
  readonly lifetimeSeconds?: number
}

interface ProviderKey {
  readonly kid: string
  readonly jwk: object
}

const CLIENT = { id: 'tests', secret: 'a-secret-that-only-tests-know-0123456789' }
const RESOURCE = 'https://api.example.com'
const AUDIENCE = 'edge'
/** Our own way to tell the provider what a token is to say. */
const WANTED_FIELD = 'x-wanted-token'

/**
 * A real identity provider, `oidc-provider`, on a real socket. It issues JWT access tokens by the grant for client credentials, and its keys rotate as
 * those of any provider: it starts again with others.
 */
export class IdentityProvider {
  readonly #server: Server
  readonly #algorithm: SigningAlgorithm
  /** The first signs. */
  #keys: readonly ProviderKey[] = []
  #handle: (request: IncomingMessage, response: ServerResponse) => void = () => {}
  #fetches = 0
  #numberOfKeys = 0

  private constructor(algorithm: SigningAlgorithm) {
    this.#algorithm = algorithm
    // Tokens are asked for again after any time, on connections that are kept: one that is closed at that moment would lose the question.
    this.#server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
      if (request.url === '/jwks') this.#fetches++
      this.#handle(request, response)
    })
  }

  /** Keys for ES256 are made in a moment; those of RSA take a tenth of a second and more. */
  static async start(owner: Owner, algorithm: SigningAlgorithm = 'ES256'): Promise<IdentityProvider> {
    const self = new IdentityProvider(algorithm)
    await new Promise<void>((resolve) => self.#server.listen(0, '127.0.0.1', resolve))
    owner.onTestFinished(() => {
      self.#server.closeAllConnections()
      self.#server.close()
    })
    self.#use([self.#newKey()])
    return self
  }

  /** The claim `iss` of its tokens. */
  get issuer(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** The `kid` of each published key; the first signs. */
  get kids(): readonly string[] {
    return this.#keys.map(({ kid }) => kid)
  }

  /** How often its key set was fetched. */
  get keySetFetches(): number {
    return this.#fetches
  }

  /** Where its key set is, by its own metadata (OpenID Connect Discovery 4). */
  async keySetUrl(): Promise<string> {
    const response = await fetch(`${this.issuer}/.well-known/openid-configuration`)
    const { issuer, jwks_uri: url } = (await response.json()) as { issuer: string; jwks_uri: string }
    if (issuer !== this.issuer) throw new Error(`the metadata are of ${issuer}`)
    return url
  }

  /** From now on a new key signs. The older ones stay published, or are withdrawn. */
  rotate(older: 'keep' | 'withdraw'): void {
    this.#use([this.#newKey(), ...(older === 'keep' ? this.#keys : [])])
  }

  /** Returns a signed access token. */
  async token(wanted: WantedToken = {}): Promise<string> {
    const response = await fetch(`${this.issuer}/token`, {
      method: 'POST',
      headers: {
        Authorization: `Basic ${Buffer.from(`${CLIENT.id}:${CLIENT.secret}`).toString('base64')}`,
        [WANTED_FIELD]: encodeURIComponent(JSON.stringify(wanted)),
      },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource: RESOURCE }),
    })
    const body = (await response.json()) as { access_token?: string }
    if (body.access_token === undefined) throw new Error(`no token: ${JSON.stringify(body)}`)
    return body.access_token
  }

  #newKey(): ProviderKey {
    const kid = `key-${++this.#numberOfKeys}`
    return { kid, jwk: { ...privateJwk(this.#algorithm), kid, use: 'sig', alg: this.#algorithm } }
  }

  #use(keys: readonly ProviderKey[]): void {
    this.#keys = keys
    this.#handle = new Provider(this.issuer, this.#options()).callback()
  }

  #options(): ProviderOptions {
    const resourceServer = { scope: '', audience: AUDIENCE, accessTokenFormat: 'jwt', jwt: { sign: { alg: this.#algorithm } } }
    return {
      jwks: { keys: this.#keys.map(({ jwk }) => jwk) },
      clients: [
        {
          client_id: CLIENT.id,
          client_secret: CLIENT.secret,
          grant_types: ['client_credentials'],
          redirect_uris: [],
          response_types: [],
          id_token_signed_response_alg: this.#algorithm,
        },
      ],
      features: {
        clientCredentials: { enabled: true },
        devInteractions: { enabled: false },
        resourceIndicators: { enabled: true, getResourceServerInfo: () => resourceServer },
      },
      formats: {
        customizers: {
          jwt: ({ req }, _token, jwt) => {
            const wanted = JSON.parse(decodeURIComponent(String(req.headers[WANTED_FIELD]))) as WantedToken
            Object.assign(jwt.payload, claimsOf(wanted, jwt.payload))
          },
        },
      },
    }
  }
}

function claimsOf({ sub, audience, claims, lifetimeSeconds }: WantedToken, given: Readonly<Record<string, unknown>>): object {
  return {
    ...(sub !== undefined && { sub }),
    ...(audience !== undefined && { aud: audience }),
    ...(lifetimeSeconds !== undefined && { exp: Number(given['iat']) + lifetimeSeconds }),
    ...claims,
  }
}

function privateJwk(algorithm: SigningAlgorithm): object {
  const { privateKey } =
    algorithm === 'ES256'
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : algorithm === 'EdDSA'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('rsa', { modulusLength: 2048 })
  return privateKey.export({ format: 'jwk' })
}
