import type { Door } from '../decide/question.ts'
import type { Reason } from '../engine/reasons.ts'

/** The form of one door's questions: where they are sent, and where the original request is read from. */
export interface QuestionShape {
  readonly door: Door
  /** Path of the question itself. */
  readonly path: string
  /** Methods of the question; undefined allows any. */
  readonly methods: readonly string[] | undefined
  /** Has the method of the original request. If undefined, that is the question's own method. */
  readonly method: OriginalField | undefined
  /** Has the URI of the original request. If undefined, that is what follows `path` in the question's target. */
  readonly uri: OriginalField | undefined
  /** Has the host of the original request. If undefined, the URI is an absolute URL that contains the host. */
  readonly host: OriginalField | undefined
}

/** A header field of the question, and the reasons for refusing a question that lacks or repeats it. */
export interface OriginalField {
  /** Name in lower case. */
  readonly name: string
  /** Undefined if the field may be missing or empty. */
  readonly missing: Reason | undefined
  readonly repeated: Reason
}

/** Questions of nginx's `auth_request`, and of any client that can send a POST with its own header fields. */
export const DECISION: QuestionShape = {
  door: 'decision',
  path: '/v1/decision',
  methods: ['POST'],
  method: methodField('x-original-method'),
  uri: uriField('x-original-uri'),
  host: hostField('x-original-host'),
}

/** Questions of Caddy, Traefik and APISIX. */
const FORWARD_AUTH: QuestionShape = {
  door: 'forward_auth',
  path: '/v1/forward-auth',
  methods: undefined,
  method: methodField('x-forwarded-method'),
  uri: uriField('x-forwarded-uri'),
  host: hostField('x-forwarded-host'),
}

/** Questions of ingress-nginx. */
const AUTH_REQUEST: QuestionShape = {
  door: 'auth_request',
  path: '/v1/auth-request',
  methods: undefined,
  method: methodField('x-original-method'),
  uri: uriField('x-original-url'),
  host: undefined,
}

/** Questions of Envoy and Istio, which send the original request with `path` in front of its own. */
const EXT_AUTHZ: QuestionShape = {
  door: 'ext_authz',
  path: '/v1/ext-authz',
  methods: undefined,
  method: undefined,
  uri: undefined,
  host: hostField('host'),
}

/** All questions that can be asked over HTTP. Both the fast wire and `node:http` read them by this table. */
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

/** Returns where the host begins if `text` from `at` to `end` is an absolute URL, otherwise -1. */
export function hostStart(text: string, at: number, end: number): number {
  for (const scheme of SCHEMES) if (end - at >= scheme.length && isSame(text, at, scheme)) return at + scheme.length
  return -1
}

/**
 * Returns where the host that begins at `at` ends, which is where the path begins. Returns -1 if readers may differ: gateways build a URL from
 * the Host field and the target, and a client may send `Host: a?b` with `/c` as well as `Host: a` with `http://a?b/c`.
 */
export function hostEnd(text: string, at: number, end: number): number {
  for (let i = at; i < end; i++) {
    const code = text.charCodeAt(i)
    if (code === SLASH) return i
    if (code === QUESTION_MARK || code === NUMBER_SIGN) return -1
  }
  return end
}

/** Ignores case: the bit 0x20 makes a letter lower-case, and turns no other character that may occur here into `:` or `/`. */
function isSame(text: string, at: number, scheme: string): boolean {
  for (let i = 0; i < scheme.length; i++) if ((text.charCodeAt(at + i) | 0x20) !== scheme.charCodeAt(i)) return false
  return true
}
