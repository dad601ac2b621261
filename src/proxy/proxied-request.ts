import type { IncomingMessage } from 'node:http'
import { fieldName } from '../http/field-name.ts'
import { hasMember } from '../http/list-field.ts'
import { headerValue } from '../http/raw-headers.ts'

/** A request on its way through, its head read once for everybody who asks. */
export class ProxiedRequest {
  readonly req: IncomingMessage
  readonly method: string
  /** The target in origin form (or `*`), the bytes that came. */
  readonly target: string
  /** Names and values in turn, as they came. */
  readonly fields: readonly string[]
  readonly host: string
  /** The values of Connection, joined by commas. */
  readonly connection: string
  readonly contentLength: number | undefined
  readonly isChunked: boolean
  /** A WebSocket's first request: the one protocol that we let through. */
  readonly isUpgrade: boolean

  private constructor(req: IncomingMessage, head: Head) {
    this.req = req
    this.method = req.method!
    this.fields = req.rawHeaders
    this.target = head.target
    this.host = head.host
    this.connection = head.connection
    this.contentLength = head.contentLength
    this.isChunked = head.isChunked
    this.isUpgrade = head.isUpgrade
  }

  /**
   * Strict where two readers could disagree about a request: answers what is wrong with it, in words. Only one that Node has
   * let go of can become a WebSocket.
   */
  static read(req: IncomingMessage, canUpgrade: boolean): ProxiedRequest | string {
    const head = readHead(req, canUpgrade)
    return typeof head === 'string' ? head : new ProxiedRequest(req, head)
  }

  get hasBody(): boolean {
    return this.isChunked || (this.contentLength ?? 0) > 0
  }

  /** All lines of a field that is a list, joined by ", ". `name` is in lower case. */
  header(name: string): string | undefined {
    return headerValue(this.fields, name)
  }
}

interface Head {
  readonly target: string
  readonly connection: string
  readonly host: string
  readonly contentLength: number | undefined
  readonly isChunked: boolean
  readonly isUpgrade: boolean
}

// RFC 3986 3.2.2 and 3.2.3: a name or an address, and a port
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~%!$&'()*+,;=]+)(?::\d{0,5})?$/

function readHead(req: IncomingMessage, canUpgrade: boolean): Head | string {
  const { rawHeaders, httpVersion } = req
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return `HTTP/${httpVersion} is not spoken here`
  let host: string | undefined
  let contentLength: number | undefined
  let isChunked = false
  let upgrade = ''
  let connection = ''
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const value = rawHeaders[i + 1]!
    switch (fieldName(rawHeaders[i]!).lower) {
      case 'host':
        if (host !== undefined) return 'Host comes more than once'
        if (!HOST.test(value)) return 'Host is not valid'
        host = value
        break
      case 'content-length':
        if (contentLength !== undefined || !/^\d{1,15}$/.test(value)) return 'Content-Length is not valid'
        contentLength = Number(value)
        break
      case 'transfer-encoding':
        if (isChunked || value.toLowerCase() !== 'chunked' || httpVersion === '1.0')
          return 'Transfer-Encoding must be chunked, once, in HTTP/1.1'
        isChunked = true
        break
      case 'upgrade':
        upgrade = upgrade === '' ? value : `${upgrade},${value}`
        break
      case 'connection':
        connection = connection === '' ? value : `${connection},${value}`
        break
    }
  }
  if (host === undefined && httpVersion === '1.1') return 'Host is missing'
  if (isChunked && contentLength !== undefined) return 'Content-Length and Transfer-Encoding exclude each other'
  const target = originForm(req.url!, req.method!, host)
  if (target === undefined) return 'the request target is not valid, or names another host than Host'
  return {
    target,
    host: host ?? '',
    connection,
    contentLength,
    isChunked,
    isUpgrade: canUpgrade && !isChunked && !contentLength && isWebSocket(req, upgrade, connection),
  }
}

/** RFC 9110 7.8: Upgrade means nothing where Connection does not name it. */
function isWebSocket(req: IncomingMessage, upgrade: string, connection: string): boolean {
  if (upgrade.toLowerCase() !== 'websocket' || req.method !== 'GET' || req.httpVersion !== '1.1') return false
  return hasMember(connection, 'upgrade')
}

/** RFC 9112 3.2: an absolute target is accepted when it names the host that Host names. */
function originForm(url: string, method: string, host: string | undefined): string | undefined {
  if (url.startsWith('/')) return url
  if (url === '*') return method === 'OPTIONS' ? url : undefined
  const [whole, authority] = /^https?:\/\/([^/?#]*)/i.exec(url) ?? []
  if (whole === undefined || authority === undefined) return undefined
  if (host !== undefined && withoutDefaultPort(authority) !== withoutDefaultPort(host)) return undefined
  if (!HOST.test(authority)) return undefined
  const rest = url.slice(whole.length)
  return rest.startsWith('/') ? rest : `/${rest}`
}

function withoutDefaultPort(authority: string): string {
  return authority.toLowerCase().replace(/:(?:80|443)?$/, '')
}
