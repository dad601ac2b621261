import { csrfToken, forgetSession } from './session.ts'

/** The API said no. `code` is one of those in docs/reasons.md. */
export class ApiFailure extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

/** Asks the admin API. Throws an ApiFailure where it says no, and a TypeError where it cannot be reached. */
export async function ask<Result>(method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown): Promise<Result> {
  const headers = new Headers()
  if (body !== undefined) headers.set('Content-Type', 'application/json')
  if (method !== 'GET') headers.set('X-Edge-CSRF', csrfToken.value ?? '')
  const init: RequestInit = { method, headers }
  if (body !== undefined) init.body = JSON.stringify(body)
  const response = await fetch(`/admin/v1/${path}`, init)
  const text = await response.text()
  if (response.ok) return (text === '' ? undefined : JSON.parse(text)) as Result
  const { message, code } = errorOf(text)
  if (response.status === 401 && path !== 'session') forgetSession()
  throw new ApiFailure(response.status, code, message)
}

function errorOf(text: string): { message: string; code: string } {
  try {
    return JSON.parse(text).error
  } catch {
    return { message: 'the response is not one of the admin API', code: 'unreadable' }
  }
}
