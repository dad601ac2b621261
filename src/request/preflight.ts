import type { RequestView } from './view.ts'

/** Fields by which some backends take another method than that of the request line. */
const METHOD_FIELDS = ['x-http-method-override', 'x-http-method', 'x-method-override']

/**
 * Whether this is the question that browsers ask, without credentials, before a page of another origin may send its request (a CORS preflight, Fetch 4.8).
 * It has no body. What a backend might take for something else is none.
 */
export function isPreflight(view: RequestView): boolean {
  if (view.method !== 'OPTIONS') return false
  if (!isOneText(view, 'origin') || !isOneText(view, 'access-control-request-method')) return false
  const length = view.header('content-length')
  if ((length !== undefined && length !== '0') || view.header('transfer-encoding') !== undefined) return false
  return METHOD_FIELDS.every((name) => view.header(name) === undefined)
}

function isOneText(view: RequestView, name: string): boolean {
  const value = view.header(name)
  return typeof value === 'string' && value !== ''
}
