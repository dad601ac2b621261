import type { ErrorKind } from '../dialect.ts'

const TYPES = { 'bad-request': 'invalid_request_error', broken: 'server_error' } as const

export function openAiError(kind: ErrorKind, message: string, code: string | null = null): object {
  return { error: { message, type: TYPES[kind], param: null, code } }
}
