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
import { loadSync, type PackageDefinition } from '@grpc/proto-loader'
import type { Fields } from '../service/http.ts'
import { type Owner, thisTest } from '../service/running.ts'

/** The definitions that the package comes with. */
export const PROTO = join(import.meta.dirname, '../../../assets/proto')

/** A call that failed: what the server said of it. */
export interface Failure {
  readonly code: number
  readonly details: string
}

export type Outcome<Response> =
  | { readonly response: Response; readonly failure?: undefined }
  | { readonly failure: Failure; readonly response?: undefined }

/** A client of `@grpc/grpc-js` for a service in one of our definitions, on a connection of its own, closed when the test ends. */
export function jsClient(
  target: string,
  file: string,
  service: string,
  owner: Owner = thisTest,
  security = credentials.createInsecure(),
): JsClient {
  let names: object = loadPackageDefinition(definitionsIn(file))
  for (const name of service.split('.')) names = (names as Record<string, object>)[name]!
  // Otherwise clients of one process share connections.
  const options = { 'grpc.use_local_subchannel_pool': 1 }
  const client = new (names as ServiceClientConstructor)(target, security, options)
  owner.onTestFinished(() => client.close())
  return new JsClient(client)
}

/** Writes the requests of a method as this library does. */
export function serializerOf(file: string, service: string, method: string): (message: object) => Uint8Array {
  const definition = definitionsIn(file)[service] as ServiceDefinition
  return (message) => definition[method]!.requestSerialize(message)
}

type Method = (request: object, metadata: Metadata, callback: (error: ServiceError | null, response: never) => void) => void

export class JsClient {
  readonly client: Client

  constructor(client: Client) {
    this.client = client
  }

  call<Response>(method: string, request: object, fields: Fields = []): Promise<Outcome<Response>> {
    const metadata = new Metadata()
    for (const [name, value] of fields) metadata.add(name, value)
    return new Promise((resolve) => {
      const call = (this.client as object as Record<string, Method>)[method]!
      call.call(this.client, request, metadata, (error, response) => {
        if (error === null) resolve({ response })
        else resolve({ failure: { code: error.code, details: error.details } })
      })
    })
  }
}

/** By file: reading one takes longer than most tests. */
const DEFINITIONS = new Map<string, PackageDefinition>()

function definitionsIn(file: string): PackageDefinition {
  const definitions = DEFINITIONS.get(file) ?? loadSync(join(PROTO, file), { keepCase: true, longs: Number, enums: String })
  DEFINITIONS.set(file, definitions)
  return definitions
}
