import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { newReadBuffer, releaseRead } from '../../read-buffer.ts'

/** As much as a backend sends at once in the best case. Every read of every connection uses it. */
const READ_BUFFER = newReadBuffer(64 * 1024)

/**
 * Connects to the backend. `onRead` gets what is read, in a buffer that all connections share, with no buffer, stream event or copy for each
 * read; with TLS, and without `onRead`, reads come as 'data'.
 */
export function openSocket(url: URL, onRead: ((bytes: Buffer, length: number) => void) | undefined): Socket {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (url.protocol === 'http:') {
    const port = Number(url.port || 80)
    if (onRead === undefined) return connectTcp({ host, port })
    const callback = (length: number): boolean => {
      onRead(READ_BUFFER, length)
      releaseRead(READ_BUFFER, length)
      return true
    }
    return connectTcp({ host, port, onread: { buffer: READ_BUFFER, callback } })
  }
  const servername = isIP(host) === 0 ? { servername: host } : {}
  return connectTls({ host, port: Number(url.port || 443), ALPNProtocols: ['http/1.1'], ...servername })
}
