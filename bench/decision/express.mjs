// express with express-rate-limit: a keyed limit in memory, told by the same fields as edge's.
import express from 'express'
import { rateLimit } from 'express-rate-limit'

const app = express()
app.disable('x-powered-by')
app.use(
  rateLimit({
    limit: Number(process.argv[2]),
    windowMs: 3_600_000,
    keyGenerator: (req) => req.headers['x-api-key'],
    standardHeaders: 'draft-6',
    legacyHeaders: false,
  }),
)
app.use((_req, res) => res.end())
const server = app.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))
