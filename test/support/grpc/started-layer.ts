import { EchoMethods } from './echo-methods.ts'
import { type CallResult, call, type Fields, grpcClient, grpcFields } from './grpc-client.ts'
import { type LayerName, servingCalls } from './serving-calls.ts'

export interface Started {
  readonly echo: EchoMethods
  readonly session: ReturnType<typeof grpcClient>
  readonly failures: readonly unknown[]
  ask(path: string, body: readonly Uint8Array[], more?: Fields): Promise<CallResult>
}

export async function started(layer: LayerName, timeouts = {}): Promise<Started> {
  const echo = new EchoMethods()
  const { port, failures } = await servingCalls(layer, { methods: echo.methods, timeouts })
  const session = grpcClient(port)
  return { echo, session, failures, ask: (path, body, more) => call(session, grpcFields(path, more), ...body) }
}

export function reply(message: string): CallResult {
  return { httpStatus: 200, status: 0, statusMessage: '', messages: [message], resetCode: 0 }
}
