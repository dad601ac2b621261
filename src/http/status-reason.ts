import { STATUS_CODES } from 'node:http'

/** The usual reason phrase of a status. */
export function statusReason(status: number): string {
  return STATUS_CODES[status] ?? 'unknown'
}
