import { expect } from 'vitest'
import { type AdminResponse, askAdmin } from './admin-client.ts'

export interface OverrideJson extends Record<string, unknown> {
  readonly id: string
  readonly durable: boolean
  readonly in_force: boolean
}

/** An operator at the admin port of one instance. What it does must succeed. */
export class Operator {
  readonly #port: number

  constructor(port: number) {
    this.#port = port
  }

  /** Two hours unless told otherwise. */
  async override(body: object): Promise<OverrideJson> {
    return this.#expect(201, await askAdmin(this.#port, 'POST', 'overrides', { body: { until: '2h', reason: 'a test', ...body } }))
  }

  async end(id: string): Promise<void> {
    this.#expect(204, await askAdmin(this.#port, 'DELETE', `overrides/${id}?reason=a+test`))
  }

  async overrides(): Promise<OverrideJson[]> {
    return this.#expect(200, await askAdmin(this.#port, 'GET', 'overrides')).overrides
  }

  /** The codes of what is wrong now. */
  async problems(): Promise<string[]> {
    const { problems } = this.#expect(200, await askAdmin(this.#port, 'GET', 'status'))
    return problems.map(({ code }: { code: string }) => code)
  }

  #expect(status: number, response: AdminResponse): AdminResponse['json'] {
    expect([response.status, response.json]).toEqual([status, response.json])
    return response.json
  }
}
