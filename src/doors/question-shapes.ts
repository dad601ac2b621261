import type { Door } from '../decide/door.ts'
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
