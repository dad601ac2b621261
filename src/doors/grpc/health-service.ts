import type { GrpcMethod } from './grpc-method.ts'
import { OK } from './grpc-status.ts'
import { ProtobufWriter } from './protobuf-writer.ts'

const SERVING = 1
const NOT_SERVING = 2

/** `grpc.health.v1.Health`. */
export function healthMethods(isReady: () => boolean): GrpcMethod[] {
  const writer = new ProtobufWriter()
  return [
    {
      path: '/grpc.health.v1.Health/Check',
      isStreaming: false,
      handle() {
        writer.number(1, isReady() ? SERVING : NOT_SERVING)
        return { status: OK, statusMessage: '', message: writer.finish() }
      },
    },
  ]
}
