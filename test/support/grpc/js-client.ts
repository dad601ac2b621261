import { join } from 'node:path'
import {
  type Client,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceClientConstructor,
  type ServiceDefinition,
  type ServiceError,
} from '@grpc/grpc-js'
import { loadSync, type Options } from '@grpc/proto-loader'
import { type Owner, thisTest } from '../service/running.ts'

/** The definitions that the package comes with. */
export const PROTO = join(import.meta.dirname, '../../../assets/proto')

const LOADED: Options = { keepCase: true, longs: Number, enums: String, defaults: false, oneofs: false }

/** A call that failed: what the server said of it. */
export interface Failure {
  readonly code: number
  readonly details: string
}

export type Outcome<Response> =
  | { readonly response: Response; readonly failure?: undefined }
  | { readonly failure: Failure; readonly response?: undefined }

/** A client of `@grpc/grpc-js` for a service of these definitions, on a connection of its own, closed when the test ends. */
export function jsClient(address: string, file: string, service: string, owner: Owner = thisTest, directory = PROTO): JsClient {
  const definition = loadSync(join(directory, file), { ...LOADED, includeDirs: [directory] })
  let names: object = loadPackageDefinition(definition)
  for (const name of service.split('.')) names = (names as Record<string, object>)[name]!
  return clientOf(names as ServiceClientConstructor, address, owner)
}

/** The same for a service that somebody else's code describes. */
export function clientOf(Service: ServiceClientConstructor, address: string, owner: Owner = thisTest): JsClient {
  // A subchannel may be shared by clients of one process; each test has its own.
  const client = new Service(address, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 })
  owner.onTestFinished(() => client.close())
  return new JsClient(client)
}

/** Writes the requests of a method as this library does. */
export function serializerOf(file: string, service: string, method: string, directory = PROTO): (message: object) => Uint8Array {
  const definition = loadSync(join(directory, file), { ...LOADED, includeDirs: [directory] })[service] as ServiceDefinition
  return (message) => definition[method]!.requestSerialize(message)
}

type Method = (
  request: object,
  metadata: Metadata,
  options: object,
  callback: (error: ServiceError | null, response: never) => void,
) => { cancel(): void }

export class JsClient {
  readonly client: Client

  constructor(client: Client) {
    this.client = client
  }

  call<Response>(method: string, request: object, options: { deadline?: number } = {}): Promise<Outcome<Response>> {
    return new Promise((resolve) => {
      const call = (this.client as object as Record<string, Method>)[method]!
      call.call(this.client, request, new Metadata(), options, (error, response) => {
        if (error === null) resolve({ response })
        else resolve({ failure: { code: error.code, details: error.details } })
      })
    })
  }
}
