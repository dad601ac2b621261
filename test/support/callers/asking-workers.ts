import { ask, type Fields } from '../service/http.ts'

const QUESTION: Fields = [
  ['X-Original-Method', 'GET'],
  ['X-Original-URI', '/'],
]

export function bearer(token: string): Fields {
  return [['Authorization', `Bearer ${token}`]]
}

/** The status of one question about a request with these fields. */
export async function statusOf(port: number, fields: Fields): Promise<number> {
  return (await ask(port, 'POST', '/v1/decision', [...QUESTION, ...fields])).status
}

/** Statuses of so many questions, each on a connection of its own, which the system gives to some worker. */
export function statusesOf(port: number, fields: Fields, times = 30): Promise<number[]> {
  return Promise.all(Array.from({ length: times }, () => statusOf(port, fields)))
}
