// A separate file, so that the page's policy can forbid inline scripts. The validator would be loaded from elsewhere.
SwaggerUIBundle({
  url: document.body.dataset.document,
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayOperationId: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
});
