import { fieldName } from '../http/field-name.ts'
import { hasMember } from '../http/list-field.ts'
import { headerValue } from '../http/raw-headers.ts'
import type { ReceivedHead } from './downstream.ts'

/** A request on its way through, its head read once for everybody who asks. */
export class ProxiedRequest {
  readonly method: string
  readonly version: string
  /** Names and values in turn, as they came. */
  readonly fields: readonly string[]
  /** The target in origin form (or `*`), the bytes that came. */
  readonly target: string
  readonly host: string
  /** The values of Connection, joined by commas. */
  readonly connection: string
  readonly contentLength: number | undefined
  readonly isChunked: boolean
  /** A WebSocket's first request: the one protocol that we let through. */
  readonly isUpgrade: boolean

  private constructor(
    received: ReceivedHead,
    target: string,
    host: string,
    connection: string,
    contentLength: number | undefined,
    isChunked: boolean,
    isUpgrade: boolean,
  ) {
    this.method = received.method
    this.version = received.version
    this.fields = received.fields
    this.target = target
    this.host = host
    this.connection = connection
    this.contentLength = contentLength
    this.isChunked = isChunked
    this.isUpgrade = isUpgrade
  }

  /**
   * Strict where two readers could disagree about a request: returns what is wrong with it, in words. `canUpgrade`: its connection
   * could carry a WebSocket.
   */
  static read(received: ReceivedHead, canUpgrade: boolean): ProxiedRequest | string {
    const { method, version, fields } = received
    if (version !== '1.1' && version !== '1.0') return `HTTP/${version} is not supported`
    let host: string | undefined
    let contentLength: number | undefined
    let isChunked = false
    let upgrade = ''
    let connection = ''
    for (let i = 0; i < fields.length; i += 2) {
      const value = fields[i + 1]!
      switch (fieldName(fields[i]!).lower) {
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
          if (isChunked || value.toLowerCase() !== 'chunked' || version === '1.0')
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
    if (host === undefined && version === '1.1') return 'Host is missing'
    if (isChunked && contentLength !== undefined) return 'Content-Length and Transfer-Encoding exclude each other'
    const target = originForm(received.target, method, host)
    if (target === undefined) return 'the request target is not valid, or names another host than Host'
    const isUpgrade = canUpgrade && !isChunked && !contentLength && isWebSocket(received, upgrade, connection)
    return new ProxiedRequest(received, target, host ?? '', connection, contentLength, isChunked, isUpgrade)
  }

  get hasBody(): boolean {
    return this.isChunked || (this.contentLength ?? 0) > 0
  }

  /** All lines of a field that is a list, joined by ", ". `name` is in lower case. */
  header(name: string): string | undefined {
    return headerValue(this.fields, name)
  }
}

// RFC 3986 3.2.2 and 3.2.3: a name or an address, and a port
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~%!$&'()*+,;=]+)(?::\d{0,5})?$/

/** RFC 9110 7.8: Upgrade means nothing where Connection does not name it. */
function isWebSocket({ method, version }: ReceivedHead, upgrade: string, connection: string): boolean {
  if (upgrade.toLowerCase() !== 'websocket' || method !== 'GET' || version !== '1.1') return false
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
