/** Stands in for Google's credentials, which would be fetched from Google. Both of its clients take an object of google-auth-library here. */
export const GOOGLE_AUTH = {
  projectId: 'p',
  getRequestHeaders: () => Promise.resolve(new Headers({ Authorization: 'Bearer ya29.test' })),
} as never
