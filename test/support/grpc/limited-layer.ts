import { expect } from 'vitest'
import type { GrpcLimits } from '../../../src/doors/grpc/grpc-limits.ts'
import { ECHO, EchoMethods } from './echo-methods.ts'
import { callFields, data, headers, hello, plainBlock } from './frames.ts'
import { prefixed } from './grpc-client.ts'
import { RawHttp2 } from './raw-http2.ts'
import { type LayerName, servingCalls } from './serving-calls.ts'

export const INITIAL_WINDOW = 4
export const head = (path: string, more: readonly (readonly [string, string])[] = []): Buffer => plainBlock(callFields(path, more))
export const asked = (streamId: number, path: string, message: string): Buffer =>
  Buffer.concat([headers(streamId, head(path)), data(streamId, prefixed(message))])
export const served = { fields: { 'grpc-status': '0' }, hasEnded: true }

export interface Started {
  readonly client: RawHttp2
  readonly echo: EchoMethods
  readonly port: number
  /** Another connection is served, whatever became of the first. */
  other(): Promise<void>
}

export async function started(limits: Partial<GrpcLimits> = {}, timeouts = {}, layer: LayerName = 'own'): Promise<Started> {
  const echo = new EchoMethods()
  const { port } = await servingCalls(layer, { methods: echo.methods, limits, timeouts })
  const other = async (): Promise<void> => {
    const client = new RawHttp2(port)
    client.send(hello(), asked(1, ECHO, 'other'))
    expect(await client.ended(1)).toMatchObject({ ...served, messages: ['other'] })
  }
  return { client: new RawHttp2(port), echo, port, other }
}
