import { noteServerTime } from './clock.ts'
import { noteLost, noteResponse } from './connection.ts'
import { csrfToken, forgetSession, resumeKept } from './session.ts'

/** A response that takes longer than this counts as missing. */
const TIMEOUT_MS = 10_000
const UNREADABLE = 'the response is not one of the admin API'

/** The API refused the request. `code` is one of those in docs/reasons.md. */
export class ApiFailure extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

/** There was no response, or only one from something between this page and edge. */
export class Unreachable extends Error {
  constructor() {
    super('edge is unreachable')
  }
}

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** Asks the admin API. Throws an ApiFailure if it refuses, and Unreachable if it does not respond in time. */
export async function ask<Result>(method: Method, path: string, body?: unknown, timeoutMs = TIMEOUT_MS): Promise<Result> {
  try {
    return await askOnce(method, path, body, timeoutMs)
  } catch (error) {
    if (!(error instanceof ApiFailure) || error.code !== 'csrf') throw error
    // Another tab has logged in again, so the cookie belongs to that session and this page's token to the previous one.
    if (resumeKept()) return askOnce(method, path, body, timeoutMs)
    forgetSession()
    throw error
  }
}

/** Opens a response that never ends by itself. Throws the same errors as `ask`. */
export async function openStream(
  path: string,
  headers: Readonly<Record<string, string>>,
  stop: AbortSignal,
): Promise<ReadableStream<Uint8Array>> {
  let response: Response
  try {
    response = await fetch(`/admin/v1/${path}`, { headers, signal: stop })
    if (response.ok && response.body !== null) return response.body
    if (response.status === 401) forgetSession()
  } catch {
    throw new Unreachable()
  }
  const { message, code } = errorOf(await response.text())
  throw new ApiFailure(response.status, code, message)
}

/** Returns the message to show to the operator for an error that `ask` threw. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

async function askOnce<Result>(method: Method, path: string, body: unknown, timeoutMs: number): Promise<Result> {
  const headers = new Headers()
  if (body !== undefined) headers.set('Content-Type', 'application/json')
  if (method !== 'GET') headers.set('X-Edge-CSRF', csrfToken.value ?? '')
  const init: RequestInit = { method, headers, signal: AbortSignal.timeout(timeoutMs) }
  if (body !== undefined) init.body = JSON.stringify(body)
  const { response, text } = await respond(path, init)
  noteServerTime(response.headers.get('date'))
  if (response.status === 204) return undefined as Result
  if (response.ok) return read(text) as Result
  const { message, code } = errorOf(text)
  if (response.status === 401 && path !== 'session') {
    forgetSession()
    throw new ApiFailure(401, code, 'Your session had ended. Try again.')
  }
  throw new ApiFailure(response.status, code, message)
}

async function respond(path: string, init: RequestInit): Promise<{ response: Response; text: string }> {
  try {
    const response = await fetch(`/admin/v1/${path}`, init)
    const text = await response.text()
    // A proxy in front of edge sends such a response if edge is down; a 503 from edge itself is JSON.
    if (response.status >= 502 && !text.startsWith('{')) throw new Unreachable()
    noteResponse()
    return { response, text }
  } catch {
    noteLost()
    throw new Unreachable()
  }
}

function read(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ApiFailure(200, 'unreadable', UNREADABLE)
  }
}

function errorOf(text: string): { message: string; code: string } {
  try {
    const { message, code } = JSON.parse(text).error
    return { message: String(message), code: String(code) }
  } catch {
    // The response comes from something between this page and edge, in its own format.
    return { message: UNREADABLE, code: 'unreadable' }
  }
}
