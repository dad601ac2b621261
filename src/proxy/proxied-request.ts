import { type FieldName, fieldName } from '../http1/field-name.ts'
import { framingProblem, isHost, noteFraming } from '../http1/framing.ts'
import { fieldValue, hasMember, headerValue } from '../http1/header-fields.ts'
import { type FieldValue, REPEATED, type RequestView, withNextLine } from '../request/view.ts'
import { mayClimb } from '../text/path.ts'
import type { Peer, ReceivedHead } from './downstream.ts'

/** A request to be proxied, whose head is read once for everybody who needs it. */
export class ProxiedRequest {
  readonly method: string
  readonly version: string
  /** Names and values in turn, as received. */
  readonly fields: readonly string[]
  /** Properties of each field that follow from its name, in the same order. */
  readonly names: readonly FieldName[]
  /** The field lines with their line ends; undefined if one is not written as `Name: value`, or if nobody checked. */
  readonly lines: string | undefined
  /** The target in origin form (or `*`), byte for byte as received. */
  readonly target: string
  readonly host: string
  /** The values of Connection, joined by commas. */
  readonly connection: string
  /** The values of TE and of Expect, joined by commas. */
  readonly te: string
  readonly expect: string
  readonly hasCookie: boolean
  readonly contentLength: number | undefined
  readonly isChunked: boolean
  /** The request opens a WebSocket, which is the one protocol that we let through. */
  readonly isUpgrade: boolean

  private constructor({ method, version, target, fields, lines }: ReceivedHead, names: readonly FieldName[]) {
    this.method = method
    this.version = version
    this.fields = fields
    this.names = names
    this.lines = lines
    this.target = target
    this.host = ''
    this.connection = ''
    this.te = ''
    this.expect = ''
    this.hasCookie = false
    this.contentLength = undefined
    this.isChunked = false
    this.isUpgrade = false
  }

  /**
   * Reads a head strictly: wherever two readers could disagree about a request, returns what is wrong with it, in words. `canUpgrade`: the
   * connection could carry a WebSocket.
   */
  static read(received: ReceivedHead, canUpgrade: boolean): ProxiedRequest | string {
    const { method, version, fields } = received
    const names: FieldName[] = []
    const request: Draft = new ProxiedRequest(received, names)
    let upgrade = ''
    for (let i = 0; i < fields.length; i += 2) {
      const name = fieldName(fields[i]!)
      names.push(name)
      if (name.isPlainInRequest) continue
      const value = fields[i + 1]!
      const problem = noteFraming(request, name.lower, value)
      if (problem !== undefined) return problem
      switch (name.lower) {
        case 'upgrade':
          upgrade = withMember(upgrade, value)
          break
        case 'connection':
          request.connection = withMember(request.connection, value)
          break
        case 'te':
          request.te = withMember(request.te, value)
          break
        case 'expect':
          request.expect = withMember(request.expect, value)
          break
        case 'cookie':
          request.hasCookie = true
          break
      }
    }
    const problem = framingProblem(request, version)
    if (problem !== undefined) return problem
    const target = originForm(received.target, method, request.host)
    if (target === undefined) return 'the request target is not valid, or names another host than Host'
    request.target = target
    request.isUpgrade = canUpgrade && !request.hasBody && isWebSocket(received, upgrade, request.connection)
    return request
  }

  get hasBody(): boolean {
    return this.isChunked || (this.contentLength ?? 0) > 0
  }

  /** Returns all lines of a list field, joined by ", ". `name` is in lower case. */
  header(name: string): string | undefined {
    return headerValue(this.fields, name)
  }
}

/** A request whose head is being read. */
type Draft = { -readonly [Name in keyof ProxiedRequest]: ProxiedRequest[Name] }

function withMember(list: string, member: string): string {
  return list === '' ? member : `${list},${member}`
}

/** RFC 9110 7.8: Upgrade has no effect unless Connection names it. */
function isWebSocket({ method, version }: ReceivedHead, upgrade: string, connection: string): boolean {
  if (upgrade.toLowerCase() !== 'websocket' || method !== 'GET' || version !== '1.1') return false
  return hasMember(connection, 'upgrade')
}

/** RFC 9112 3.2: an absolute target is accepted if it names the same host as Host. */
function originForm(url: string, method: string, host: string): string | undefined {
  if (url.startsWith('/')) return url
  if (url === '*') return method === 'OPTIONS' ? url : undefined
  const [whole, authority] = /^https?:\/\/([^/?#]*)/i.exec(url) ?? []
  if (whole === undefined || authority === undefined) return undefined
  if (host !== '' && withoutDefaultPort(authority) !== withoutDefaultPort(host)) return undefined
  if (!isHost(authority)) return undefined
  const rest = url.slice(whole.length)
  return rest.startsWith('/') ? rest : `/${rest}`
}

function withoutDefaultPort(authority: string): string {
  return authority.toLowerCase().replace(/:(?:80|443)?$/, '')
}

/** The engine's view of a proxied request, without forwarding fields from a peer that is not trusted. */
export class ProxiedRequestView implements RequestView {
  readonly #request: ProxiedRequest
  readonly #peer: Peer

  constructor(request: ProxiedRequest, peer: Peer) {
    this.#request = request
    this.#peer = peer
  }

  get method(): string {
    return this.#request.method
  }

  get uri(): string {
    return this.#request.target
  }

  get host(): string {
    return this.#request.host
  }

  get opensSocket(): boolean {
    return this.#request.isUpgrade
  }

  header(name: string): FieldValue {
    const asked = fieldName(name)
    if (!asked.isForwarding) return valueInAnySpelling(this.#request, asked)
    const value = this.#peer.isTrusted ? fieldValue(this.#request.fields, name) : undefined
    // A peer that does not forward for anybody is the client itself.
    return value === undefined && name === 'x-forwarded-for' ? this.#peer.address : value
  }
}

/** A CGI-style backend reads X_Api_Key as X-Api-Key, so a limit that is keyed by one must not be evaded with the other. */
function valueInAnySpelling({ names, fields }: ProxiedRequest, { lower, folded }: FieldName): FieldValue {
  let value: string | undefined
  for (let i = 0; i < names.length; i++) {
    if (names[i]!.folded !== folded) continue
    const line = fields[2 * i + 1]!
    const longer = value === undefined ? line : withNextLine(lower, value, line)
    if (longer === REPEATED) return REPEATED
    value = longer
  }
  return value
}

/** A base path may stand for a tenant, or for a version of an API. */
const CLIMBS = 'the path has a segment that begins with "..", which some backends resolve to a path outside their base path'

/** Returns why a request is refused before anything is decided, although its head can be read. */
export function refusalOf({ target }: ProxiedRequest, basePath: string): string | undefined {
  return basePath !== '' && mayClimb(target) ? CLIMBS : undefined
}
