import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { urlToHttpOptions } from 'node:url'
import { printableText } from '../../text/formats.ts'
import { AdminProblem, fieldBytes } from '../text/caller-values.ts'

/** Time limit for connecting, asking and reading together. */
const TIMEOUT_MS = 10_000
/** Far more than an explanation of 10,000 policies takes. */
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024

export interface AdminRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Path below `/admin/v1/`. */
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
}

export interface AdminResponse {
  /** The body as it was received; empty if there is none. */
  readonly text: string
  /** The parsed body; undefined if there is none. */
  readonly json: unknown
}

/** Asks the admin API of one instance. */
export class AdminClient {
  readonly #address: AdminAddress
  readonly #timeoutMs: number

  constructor(address: AdminAddress, timeoutMs = TIMEOUT_MS) {
    this.#address = address
    this.#timeoutMs = timeoutMs
  }

  /** Returns the response if the instance did what was asked; throws an AdminProblem otherwise. */
  async ask(request: AdminRequest, signal?: AbortSignal): Promise<AdminResponse> {
    const timeout = AbortSignal.timeout(this.#timeoutMs)
    let status: number
    let text: string
    try {
      const res = await this.#send(request, signal === undefined ? timeout : AbortSignal.any([timeout, signal]))
      status = res.statusCode!
      text = await readText(res)
    } catch (error) {
      if (timeout.aborted) throw new AdminProblem(`${this.#place} did not respond within ${this.#timeoutMs / 1000} s`)
      throw error instanceof AdminProblem ? error : new AdminProblem(this.#unreachable(error as NodeJS.ErrnoException))
    }
    const json = parse(text)
    if (status >= 300) throw new AdminProblem(this.#refusal(status, json))
    if (json === undefined && status !== 204) throw new AdminProblem(`${this.#place} does not respond as the admin API of edge does`)
    return { text, json }
  }

  #send({ method, path, query = {}, body }: AdminRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const { base, token, actor } = this.#address
    const url = new URL(`admin/v1/${path}`, base)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    return new Promise((resolve, reject) => {
      const req = (url.protocol === 'https:' ? requestHttps : requestHttp)({
        ...urlToHttpOptions(url),
        method,
        agent: false,
        signal,
        headers: {
          Authorization: `Bearer ${token}`,
          Accept: 'application/json',
          ...(actor !== undefined && { 'X-Edge-Actor': actor }),
          ...(content !== undefined && { 'Content-Type': 'application/json', 'Content-Length': content.length }),
        },
      })
      req.on('error', reject)
      req.on('response', resolve)
      req.end(content)
    })
  }

  get #place(): string {
    return this.#address.base.href
  }

  #unreachable({ code, message }: NodeJS.ErrnoException): string {
    return `${this.#place} is unreachable: ${printableText(REASONS[code ?? ''] ?? message)}`
  }

  #refusal(status: number, json: unknown): string {
    const { code, message } = errorOf(json)
    if (status === 401 || code === 'too_many_attempts') return 'EDGE_ADMIN_TOKEN: this is not the token that edge serve was started with'
    if (message !== undefined) return printableText(`${message}${code === undefined ? '' : ` (${code})`}`)
    if (status === 404)
      return `${this.#place} has no admin API: it is served on EDGE_ADMIN_PORT, and only where edge serve has EDGE_ADMIN_TOKEN`
    return `${this.#place} does not respond as the admin API of edge does: status ${status}`
  }
}

const UNTRUSTED = 'its certificate is not trusted; for a private authority set NODE_EXTRA_CA_CERTS to its file'

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'the connection was closed',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'its name cannot be looked up',
  EHOSTUNREACH: 'there is no route to it',
  ENETUNREACH: 'there is no route to it',
  ETIMEDOUT: 'it does not respond',
  EPROTO: 'it does not speak TLS; expected http:// in EDGE_ADMIN_URL?',
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
}

async function readText(res: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of res) {
    bytes += (chunk as Buffer).length
    if (bytes > MAX_RESPONSE_BYTES) throw new AdminProblem(`the response has more than ${MAX_RESPONSE_BYTES / 1024 / 1024} MiB`)
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString()
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function errorOf(json: unknown): { readonly code?: string; readonly message?: string } {
  const { code, message } = (json as { error?: { code?: unknown; message?: unknown } } | undefined)?.error ?? {}
  return { ...(typeof code === 'string' && { code }), ...(typeof message === 'string' && { message }) }
}

/** Address of the admin API, with the credentials of the operator. */
interface AdminAddress {
  /** Ends in `/`, so that `admin/v1/` can follow. */
  readonly base: URL
  readonly token: string
  readonly actor: string | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

/** Addresses to listen on that nobody can connect to. */
const ALL_INTERFACES = ['0.0.0.0', '::']

export function readAdminAddress(env: Environment): AdminAddress {
  const base = readBase(env)
  const token = env['EDGE_ADMIN_TOKEN'] ?? ''
  if (token === '') throw new AdminProblem('EDGE_ADMIN_TOKEN: expected the token that edge serve was started with')
  if (!/^[!-~]+$/.test(token)) throw new AdminProblem('EDGE_ADMIN_TOKEN: expected visible ASCII characters only')
  return { base, token, actor: actorOf(env['USER']) }
}

/** Without a URL, the settings of an instance on this machine say where it is. */
function readBase({ EDGE_ADMIN_URL: text, EDGE_ADMIN_PORT: port, EDGE_ADMIN_HOST, EDGE_HOST }: Environment): URL {
  if (text) return readUrl(text)
  if (!port) throw new AdminProblem('EDGE_ADMIN_URL: expected the URL of the admin port, such as http://127.0.0.1:9090')
  if (!/^[1-9]\d{0,4}$/.test(port) || Number(port) > 65535)
    throw new AdminProblem('EDGE_ADMIN_URL: expected the URL of the admin port, because EDGE_ADMIN_PORT does not name one')
  const host = EDGE_ADMIN_HOST || EDGE_HOST || ALL_INTERFACES[0]!
  const url = `http://${ALL_INTERFACES.includes(host) ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host}:${port}/`
  if (!URL.canParse(url)) throw new AdminProblem('EDGE_ADMIN_URL: expected the URL of the admin port, because EDGE_ADMIN_HOST is no host')
  return new URL(url)
}

/** Accepts the URL of the API itself, too. Messages do not quote the URL, because it may contain a password. */
function readUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw new AdminProblem('EDGE_ADMIN_URL: expected a URL that begins with http:// or https://')
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    throw new AdminProblem('EDGE_ADMIN_URL: expected a URL without user, query and fragment')
  url.pathname = url.pathname.replace(/\/admin\/v1\/?$/, '/')
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  return url
}

/** Returns the user as the value of a header field, which cannot carry control characters. */
function actorOf(user: string | undefined): string | undefined {
  return user ? fieldBytes(user.replace(/\p{Cc}/gu, '?')) : undefined
}
