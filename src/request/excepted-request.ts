import { type FieldValue, REPEATED, type RequestView } from './view.ts'

/*
 * What makes a request one that needs no caller although others do, or keeps it from being one. A backend might take a request with one of the fields below
 * for another: for one of another path, or of another method.
 */

/** Fields by which some backends take another path than that of the request line: IIS rewriting, Symfony, Zend, Spring, and what stands before WSGI. */
const PATH_FIELDS = spellings(
  'x-original-url',
  'x-original-uri',
  'x-original-path',
  'x-rewrite-url',
  'x-rewrite-uri',
  'x-override-url',
  'x-http-path-override',
  'x-http-destinationurl',
  'x-forwarded-uri',
  'x-forwarded-url',
  'x-forwarded-path',
)

/** Fields that say what comes before the path, or is to be taken off its beginning: one that is the whole path leaves another. */
const PREFIX_FIELDS = spellings('x-forwarded-prefix', 'x-script-name')

/** Fields by which some take another method. */
const METHOD_FIELDS = spellings('x-http-method-override', 'x-http-method', 'x-method-override', 'x-original-method', 'x-forwarded-method')

/**
 * Whether a field says another path or method than the request itself. One that says the same rewrites nothing: gateways send such fields, and at some
 * doors they are the question.
 */
export function isRewritten(view: RequestView): boolean {
  const path = pathOf(view.uri)
  for (const name of PATH_FIELDS) {
    const value = view.header(name)
    if (value !== undefined && (value === REPEATED || pathOf(value.replace(ORIGIN, '')) !== path)) return true
  }
  return PREFIX_FIELDS.some((name) => saysPrefix(name, view.header(name))) || saysOtherMethod(view)
}

/** A forwarded prefix of `/` says that nothing comes before the path. */
function saysPrefix(name: string, value: FieldValue): boolean {
  return value !== undefined && !(value === '/' && /prefix$/.test(name))
}

function saysOtherMethod(view: RequestView): boolean {
  return METHOD_FIELDS.some((name) => {
    const value = view.header(name)
    return value !== undefined && value !== view.method
  })
}

const ORIGIN = /^https?:\/\/[^/?#]*/i

function pathOf(uri: string): string {
  const end = uri.indexOf('?')
  return end < 0 ? uri : uri.slice(0, end)
}

/**
 * Whether this is the question that browsers ask, without credentials, before a page of another origin may send its request (a CORS preflight, Fetch 4.8).
 * It has no body. What a backend might take for a request of another method is none; at any path, it is the same question.
 */
export function isPreflight(view: RequestView): boolean {
  if (view.method !== 'OPTIONS') return false
  if (!isOneText(view, 'origin') || !isOneText(view, 'access-control-request-method')) return false
  const length = view.header('content-length')
  if ((length !== undefined && length !== '0') || view.header('transfer-encoding') !== undefined) return false
  return !saysOtherMethod(view)
}

function isOneText(view: RequestView, name: string): boolean {
  const value = view.header(name)
  return typeof value === 'string' && value !== ''
}

/** Envoy passes on names with underscores, also with some, which CGI-style backends read as the same. */
function spellings(...names: readonly string[]): readonly string[] {
  return names.flatMap((name) => {
    const [first, ...rest] = name.split('-') as [string, ...string[]]
    return rest.reduce((heads, word) => heads.flatMap((head) => [`${head}-${word}`, `${head}_${word}`]), [first])
  })
}
