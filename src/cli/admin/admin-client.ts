import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { urlToHttpOptions } from 'node:url'
import { printableText } from '../../text/printable.ts'
import { AdminProblem, fieldBytes } from '../text/caller-values.ts'

/** Time limit for connecting, asking and reading together. */
const TIMEOUT_MS = 10_000
/** Far more than an explanation of 10,000 policies takes. */
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024

export interface AdminRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Path below `/admin/v1/`. */
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
}

/** The instance has refused what was asked. */
export class AdminRefusal extends AdminProblem {
  readonly code: string | undefined

  constructor(message: string, code: string | undefined) {
    super(message)
    this.code = code
  }
}

export interface AdminResponse {
  /** The body as it was received; empty if there is none. */
  readonly text: string
  /** The parsed body; undefined if there is none. */
  readonly json: unknown
}

/** An instance sends something every 15 seconds to those who follow events. */
const SILENCE_MS = 40_000

/** The path and the field by which the admin API is told from anything else, without the token. */
const PROBE = 'status'
const IDENTITY = 'x-edge-admin'

/** Asks the admin API of one instance. The token is sent only to what has identified itself as such. */
export class AdminClient {
  readonly #address: AdminAddress
  readonly #timeoutMs: number
  readonly #silenceMs: number
  #isIdentified = false

  constructor(address: AdminAddress, timeoutMs = TIMEOUT_MS, silenceMs = SILENCE_MS) {
    this.#address = address
    this.#timeoutMs = timeoutMs
    this.#silenceMs = silenceMs
  }

  /** Returns the response if the instance did what was asked; throws an AdminProblem otherwise. */
  async ask(request: AdminRequest, signal?: AbortSignal): Promise<AdminResponse> {
    const timeout = AbortSignal.timeout(this.#timeoutMs)
    let status: number
    let text: string
    try {
      const res = await this.#sendIdentified(request, signal === undefined ? timeout : AbortSignal.any([timeout, signal]))
      status = res.statusCode!
      text = await readText(res)
    } catch (error) {
      throw this.#problemOf(error, timeout)
    }
    const json = parse(text)
    if (status >= 300) throw new AdminRefusal(this.#refusal(status, json), errorOf(json).code)
    if (json === undefined && status !== 204) throw new AdminProblem(`${this.#place} does not respond as the admin API of edge does`)
    return { text, json }
  }

  /** Yields the data of server-sent events until the instance or `signal` ends the stream; throws an AdminProblem if it breaks off. */
  async *follow(request: AdminRequest, signal: AbortSignal): AsyncGenerator<string> {
    const timeout = new AbortController()
    const timer = setTimeout(() => timeout.abort(), this.#timeoutMs)
    try {
      const res = await this.#sendIdentified(request, AbortSignal.any([timeout.signal, signal]))
      if (res.statusCode !== 200) throw new AdminProblem(this.#refusal(res.statusCode!, parse(await readText(res))))
      clearTimeout(timer)
      const silence = `${this.#place} has sent nothing for ${this.#silenceMs / 1000} s, so the connection is lost`
      res.setTimeout(this.#silenceMs, () => res.destroy(new AdminProblem(silence)))
      yield* eventData(res)
    } catch (error) {
      if (!signal.aborted) throw this.#problemOf(error, timeout.signal)
    } finally {
      clearTimeout(timer)
    }
  }

  /** The token must not reach a backend or a stranger because EDGE_ADMIN_URL names another port. */
  async #sendIdentified(request: AdminRequest, signal: AbortSignal): Promise<IncomingMessage> {
    if (!this.#isIdentified) {
      const res = await this.#send({ method: 'GET', path: PROBE }, signal, {})
      res.destroy()
      if (res.headers[IDENTITY] === undefined) throw new AdminProblem(this.#notIdentified(res.statusCode!))
      this.#isIdentified = true
    }
    const { token, actor } = this.#address
    return this.#send(request, signal, { Authorization: `Bearer ${token}`, ...(actor !== undefined && { 'X-Edge-Actor': actor }) })
  }

  #send({ method, path, query = {}, body }: AdminRequest, signal: AbortSignal, sender: Sender): Promise<IncomingMessage> {
    const url = new URL(`admin/v1/${path}`, this.#address.base)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    return new Promise((resolve, reject) => {
      const req = (url.protocol === 'https:' ? requestHttps : requestHttp)({
        ...urlToHttpOptions(url),
        method,
        agent: false,
        signal,
        headers: {
          ...sender,
          Accept: 'application/json',
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

  #problemOf(error: unknown, timeout: AbortSignal): AdminProblem {
    if (timeout.aborted) return new AdminProblem(`${this.#place} did not respond within ${this.#timeoutMs / 1000} s`)
    return error instanceof AdminProblem ? error : new AdminProblem(this.#unreachable(error as NodeJS.ErrnoException))
  }

  #unreachable({ code, message }: NodeJS.ErrnoException): string {
    return `${this.#place} is unreachable: ${printableText(REASONS[code ?? ''] ?? message)}`
  }

  #refusal(status: number, json: unknown): string {
    const { code, message } = errorOf(json)
    if (status === 401 || code === 'too_many_attempts') return 'EDGE_ADMIN_TOKEN: this is not the token that edge serve was started with'
    if (message !== undefined) return printableText(`${message}${code === undefined ? '' : ` (${code})`}`)
    return `${this.#place} does not respond as the admin API of edge does: status ${status}`
  }

  #notIdentified(status: number): string {
    const expected = 'expected EDGE_ADMIN_URL to name the port of EDGE_ADMIN_PORT, of an edge serve that has EDGE_ADMIN_TOKEN'
    const problem = `${this.#place} has no admin API (it responded with status ${status}), so the token was not sent: ${expected}`
    // What an admin API responds without the token, whether or not it identifies itself.
    return status === 401 ? `${problem}. If it does, that edge is too old for this command: use the command of its version` : problem
  }
}

/** Header fields that say who asks; empty for a request that anybody may see. */
type Sender = Readonly<Partial<Record<'Authorization' | 'X-Edge-Actor', string>>>

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

/** An event has one line, of at most 16 KiB. */
const MAX_UNREAD_CHARACTERS = 1024 * 1024

/** Looks at every character once, however small the chunks are. */
async function* eventData(res: IncomingMessage): AsyncGenerator<string> {
  let unread: string[] = []
  let characters = 0
  for await (const text of res.setEncoding('utf8') as AsyncIterable<string>) {
    const [first, ...others] = text.split('\n') as [string, ...string[]]
    unread.push(first)
    characters += first.length
    if (characters > MAX_UNREAD_CHARACTERS) throw new AdminProblem('the stream has an event without an end')
    if (others.length === 0) continue
    const rest = others.pop()!
    for (const line of [unread.join(''), ...others]) if (line.startsWith('data: ')) yield line.slice('data: '.length)
    unread = [rest]
    characters = rest.length
  }
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

export function readAdminAddress(env: Environment, actor?: string): AdminAddress {
  const base = readBase(env)
  const name = env['EDGE_ADMIN_TOKEN'] || !env['EDGE_ADMIN_READ_TOKEN'] ? 'EDGE_ADMIN_TOKEN' : 'EDGE_ADMIN_READ_TOKEN'
  const token = env[name] ?? ''
  if (token === '') throw new AdminProblem('EDGE_ADMIN_TOKEN: expected the token that edge serve was started with')
  if (!/^[!-~]+$/.test(token)) throw new AdminProblem(`${name}: expected visible ASCII characters only`)
  return { base, token, actor: actorOf(actor ?? (env['EDGE_ACTOR'] || env['USER'])) }
}

/** Without a URL, the settings of an instance on this machine say where it is. */
function readBase({ EDGE_ADMIN_URL: text, EDGE_ADMIN_PORT: port, EDGE_ADMIN_HOST, EDGE_HOST }: Environment): URL {
  if (text) return readUrl(text)
  if (!port) throw new AdminProblem('EDGE_ADMIN_URL: expected the URL of the admin port, such as http://127.0.0.1:9090')
  if (!/^[1-9]\d{0,4}$/.test(port) || Number(port) > 65535)
    throw new AdminProblem('EDGE_ADMIN_URL: expected the URL of the admin port, because EDGE_ADMIN_PORT does not name one')
  const host = EDGE_ADMIN_HOST || EDGE_HOST || ALL_INTERFACES[0]!
  const url = `http://${ALL_INTERFACES.includes(host) ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host}:${port}/`
  if (!URL.canParse(url))
    throw new AdminProblem('EDGE_ADMIN_URL: expected the URL of the admin port, because EDGE_ADMIN_HOST is not a host')
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
