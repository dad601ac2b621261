import type { Door } from '../decide/question.ts'
import type { Reason } from '../engine/reasons.ts'

/** How one door's questions look: where they are sent, and where the request that they ask about is read from. */
export interface QuestionShape {
  readonly door: Door
  /** Of the question itself. */
  readonly path: string
  /** Undefined: any. */
  readonly methods: readonly string[] | undefined
  /** Of the request that is asked about. Undefined: the question's own method. */
  readonly method: OriginalField | undefined
  /** Undefined: what follows `path` in the question's target. */
  readonly uri: OriginalField | undefined
  /** Undefined: the URI is an absolute URL, and the host is in it. */
  readonly host: OriginalField | undefined
}

/** A header field of the question, and why a question is refused that lacks it or has it twice. */
export interface OriginalField {
  /** In lower case. */
  readonly name: string
  /** Undefined: it may be missing or empty. */
  readonly missing: Reason | undefined
  readonly repeated: Reason
}

/** nginx's `auth_request`, and whatever can send a POST with header fields of its own. */
export const DECISION: QuestionShape = {
  door: 'decision',
  path: '/v1/decision',
  methods: ['POST'],
  method: methodField('x-original-method'),
  uri: uriField('x-original-uri'),
  host: hostField('x-original-host'),
}

/** Caddy, Traefik, APISIX. */
const FORWARD_AUTH: QuestionShape = {
  door: 'forward_auth',
  path: '/v1/forward-auth',
  methods: undefined,
  method: methodField('x-forwarded-method'),
  uri: uriField('x-forwarded-uri'),
  host: hostField('x-forwarded-host'),
}

/** ingress-nginx. */
const AUTH_REQUEST: QuestionShape = {
  door: 'auth_request',
  path: '/v1/auth-request',
  methods: undefined,
  method: methodField('x-original-method'),
  uri: uriField('x-original-url'),
  host: undefined,
}

/** Envoy and Istio: the question is the request itself, with `path` in front of its own. */
const EXT_AUTHZ: QuestionShape = {
  door: 'ext_authz',
  path: '/v1/ext-authz',
  methods: undefined,
  method: undefined,
  uri: undefined,
  host: hostField('host'),
}

/** Every question that can be asked over HTTP. Both wires read them by this table. */
export const QUESTION_SHAPES: readonly QuestionShape[] = [DECISION, FORWARD_AUTH, AUTH_REQUEST, EXT_AUTHZ]

function methodField(name: string): OriginalField {
  return { name, missing: 'missing_original_method', repeated: 'repeated_original_method' }
}

function uriField(name: string): OriginalField {
  return { name, missing: 'missing_original_uri', repeated: 'repeated_original_uri' }
}

function hostField(name: string): OriginalField {
  return { name, missing: undefined, repeated: 'repeated_original_host' }
}

const SLASH = 0x2f
const QUESTION_MARK = 0x3f
const NUMBER_SIGN = 0x23

const SCHEMES = ['http://', 'https://']

/** Where the host of an absolute URL begins that is the part of `text` from `at` to `end`; -1 for any other text. */
export function hostStart(text: string, at: number, end: number): number {
  for (const scheme of SCHEMES) if (end - at >= scheme.length && isSame(text, at, scheme)) return at + scheme.length
  return -1
}

/**
 * Where the host that begins at `at` ends, and the path begins. -1 where readers may differ: gateways put a URL together from the Host
 * field and the target, and a client may send `Host: a?b` with `/c` as well as `Host: a` with `http://a?b/c`.
 */
export function hostEnd(text: string, at: number, end: number): number {
  for (let i = at; i < end; i++) {
    const code = text.charCodeAt(i)
    if (code === SLASH) return i
    if (code === QUESTION_MARK || code === NUMBER_SIGN) return -1
  }
  return end
}

/** In any case: the bit sets a letter in lower case, and changes no other character that a field or a target may have here. */
function isSame(text: string, at: number, scheme: string): boolean {
  for (let i = 0; i < scheme.length; i++) if ((text.charCodeAt(at + i) | 0x20) !== scheme.charCodeAt(i)) return false
  return true
}
