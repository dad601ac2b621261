// fastify with @fastify/rate-limit: a keyed limit in memory.
import rateLimit from '@fastify/rate-limit'
import fastify from 'fastify'

const app = fastify()
await app.register(rateLimit, {
  max: Number(process.argv[2]),
  timeWindow: 3_600_000,
  keyGenerator: (request) => request.headers['x-api-key'],
})
app.get('/*', (_request, reply) => reply.send())
await app.listen({ port: 0, host: '127.0.0.1' })
process.send({ port: app.server.address().port })
