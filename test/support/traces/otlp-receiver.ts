import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'

/** A span as OTLP has it, with its attributes as a plain object. */
export interface ReceivedSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  /** SERVER is 2, CLIENT 3, INTERNAL 1. */
  readonly kind: number
  readonly startMs: number
  readonly endMs: number
  readonly attributes: Readonly<Record<string, unknown>>
  readonly events: readonly { readonly name: string; readonly attributes: Readonly<Record<string, unknown>> }[]
  /** 2 is an error. */
  readonly status: { readonly code: number; readonly message?: string }
  readonly resource: Readonly<Record<string, unknown>>
}

export interface ReceivedExport {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** As JSON. */
  readonly body: string
  readonly spans: readonly ReceivedSpan[]
}

/** A collector of traces: a real server that reads OTLP over HTTP, and whose responses a test chooses. */
export class OtlpReceiver {
  readonly exports: ReceivedExport[] = []
  respond: (res: ServerResponse) => void = (res) => void res.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')
  readonly #server: Server

  private constructor(server: Server) {
    this.#server = server
    server.on('request', async (req, res) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const bytes = Buffer.concat(chunks)
      const body = (req.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString()
      this.exports.push({ path: req.url!, headers: req.headers, body, spans: [...spansIn(JSON.parse(body))] })
      this.respond(res)
    })
  }

  static async start(owner: Owner = thisTest): Promise<OtlpReceiver> {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const receiver = new OtlpReceiver(server)
    owner.onTestFinished(() => {
      // An exporter may try again after its test. If the port were free, another test's server could get that.
      server.unref()
      receiver.respond = (res) => void res.end('{}')
      server.closeAllConnections()
    })
    return receiver
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Traces what callers trace, and of the rest nothing. */
  get env(): Readonly<Record<string, string>> {
    return { EDGE_OTLP_URL: this.url, EDGE_OTLP_SAMPLE: '0' }
  }

  /** Of all exports. */
  get spans(): ReceivedSpan[] {
    return this.exports.flatMap(({ spans }) => spans)
  }

  /** The spans of a trace, once there are so many. */
  async trace(traceId: string, count: number): Promise<ReceivedSpan[]> {
    const found = (): ReceivedSpan[] => this.spans.filter((span) => span.traceId === traceId)
    await until(() => found().length >= count)
    return found()
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}

interface OtlpValue {
  readonly stringValue?: string
  readonly intValue?: number | string
  readonly doubleValue?: number
  readonly boolValue?: boolean
  readonly arrayValue?: { readonly values: readonly OtlpValue[] }
}

type OtlpAttributes = readonly { readonly key: string; readonly value: OtlpValue }[]

interface OtlpBody {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: OtlpAttributes }
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[]
  }[]
}

interface OtlpSpan extends Pick<ReceivedSpan, 'name' | 'traceId' | 'spanId' | 'parentSpanId' | 'kind' | 'status'> {
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: OtlpAttributes
  readonly events: readonly { readonly name: string; readonly attributes: OtlpAttributes }[]
}

function* spansIn({ resourceSpans }: OtlpBody): Generator<ReceivedSpan> {
  for (const { resource, scopeSpans } of resourceSpans) {
    for (const span of scopeSpans.flatMap(({ spans }) => spans)) {
      const { name, traceId, spanId, parentSpanId, kind, status } = span
      yield {
        ...{ name, traceId, spanId, parentSpanId, kind, status },
        startMs: Number(span.startTimeUnixNano) / 1e6,
        endMs: Number(span.endTimeUnixNano) / 1e6,
        attributes: plain(span.attributes),
        events: span.events.map((event) => ({ name: event.name, attributes: plain(event.attributes) })),
        resource: plain(resource.attributes),
      }
    }
  }
}

function plain(attributes: OtlpAttributes): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, plainValue(value)]))
}

function plainValue({ stringValue, intValue, doubleValue, boolValue, arrayValue }: OtlpValue): unknown {
  if (arrayValue !== undefined) return arrayValue.values.map(plainValue)
  return stringValue ?? (intValue === undefined ? undefined : Number(intValue)) ?? doubleValue ?? boolValue
}
