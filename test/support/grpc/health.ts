import type { ClientReadableStream, ServiceError } from '@grpc/grpc-js'
import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'
import { type JsClient, jsClient } from './js-client.ts'

interface HealthCheckResponse {
  readonly status: string
}

export function healthClient(port: number, owner?: Owner): JsClient {
  return jsClient(`127.0.0.1:${port}`, 'health.proto', 'grpc.health.v1.Health', owner)
}

/** The status by its name, or the number of the status that the call failed with. */
export async function health(client: JsClient, service = ''): Promise<string | number> {
  const { response, failure } = await client.call<HealthCheckResponse>('Check', { service })
  return response?.status ?? failure!.code
}

/** A call of Watch and all that has come of it. */
export class Watch {
  readonly statuses: string[] = []
  /** The status that it ended with. */
  endedWith: number | undefined
  readonly #stream: ClientReadableStream<HealthCheckResponse>

  constructor(client: JsClient, service: string) {
    const { client: calls } = client
    this.#stream = (calls as object as { Watch(request: object): ClientReadableStream<HealthCheckResponse> }).Watch({ service })
    this.#stream.on('data', ({ status }: HealthCheckResponse) => this.statuses.push(status))
    this.#stream.on('error', ({ code }: ServiceError) => {
      this.endedWith = code
    })
  }

  cancel(): void {
    this.#stream.cancel()
  }
}

/** A watch that has its first message, cancelled when the test ends. */
export async function watching(client: JsClient, service = '', owner: Owner = thisTest): Promise<Watch> {
  const watch = new Watch(client, service)
  owner.onTestFinished(() => watch.cancel())
  await until(() => watch.statuses.length > 0 || watch.endedWith !== undefined)
  return watch
}
