package mock

import "net/http"

func (m *Mock) pagesHandler() http.Handler { return http.NotFoundHandler() }
